"""Where a live picture comes from and goes to, and the argument lists of the programs at both ends.

Live streams are the one place where the bundled program opens network addresses; which ones is decided here, by the
scheme, and the program is told no other protocol. A source or sink is named by the person who runs the command, never
by a job.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from urllib.parse import urlsplit

from farm.errors import InputError


class Kind(StrEnum):
    FILE = "file"
    CAMERA = "v4l2"
    RTSP = "rtsp"
    RTMP = "rtmp"
    SRT = "srt"
    WHIP = "whip"


_SOURCES: Mapping[str, Kind] = MappingProxyType(
    {"rtsp": Kind.RTSP, "rtsps": Kind.RTSP, "rtmp": Kind.RTMP, "rtmps": Kind.RTMP}
)
_SINKS: Mapping[str, Kind] = MappingProxyType(
    {"rtmp": Kind.RTMP, "rtmps": Kind.RTMP, "srt": Kind.SRT, "http": Kind.WHIP, "https": Kind.WHIP}
)
_PROTOCOLS: Mapping[Kind, str] = MappingProxyType(
    {
        Kind.FILE: "file",
        Kind.CAMERA: "file",
        Kind.RTSP: "rtsp,rtp,udp,tcp,tls,crypto",
        Kind.RTMP: "rtmp,rtmps,tcp,tls,crypto",
        Kind.SRT: "srt",
        Kind.WHIP: "http,https,tcp,tls,dtls,udp,srtp",
    }
)
_FILES = MappingProxyType({".mp4": "mp4", ".mov": "mov", ".mkv": "matroska", ".ts": "mpegts", ".flv": "flv"})
KEY_SECONDS = 2
SAMPLE_RATE = 48_000


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One end of a live line. `address` may hold a password: it is never logged, and errors call it by `name`."""

    kind: Kind
    address: str

    @property
    def name(self) -> str:
        """How people are told of it: a file's path, or scheme and host."""
        if self.kind in (Kind.FILE, Kind.CAMERA):
            return self.address
        parts = urlsplit(self.address)
        return f"{parts.scheme}://{parts.hostname or ''}"


def source(text: str) -> Endpoint:
    """A file, a camera (/dev/video0), or an rtsp, rtsps, rtmp or rtmps address. InputError for anything else."""
    found = _by_scheme(text, _SOURCES, "source")
    if found is not None:
        return found
    path = Path(text)
    if path.is_char_device() and path.is_relative_to("/dev"):
        return Endpoint(Kind.CAMERA, str(path))
    if not path.is_file():
        raise InputError("The source does not exist.", where=text, do="Give a file, a camera or an address.")
    return Endpoint(Kind.FILE, str(path.absolute()))


def sink(text: str) -> Endpoint:
    """A file by its suffix, or an rtmp, rtmps, srt, http or https (WHIP) address. InputError for anything else."""
    found = _by_scheme(text, _SINKS, "sink")
    if found is not None:
        return found
    path = Path(text)
    if path.suffix.lower() not in _FILES:
        raise InputError("The kind of file is not known.", where=text, do=f"Use one of: {', '.join(_FILES)}.")
    return Endpoint(Kind.FILE, str(path.absolute()))


def _by_scheme(text: str, known: Mapping[str, Kind], what: str) -> Endpoint | None:
    scheme, marked, rest = text.partition("://")
    if not marked:
        return None
    if scheme.lower() not in known or not rest:
        raise InputError(
            f"The {what} cannot be of the kind {scheme!r}.",
            where=what,
            do=f"Use a file, or one of: {', '.join(known)}.",
        )
    return Endpoint(known[scheme.lower()], text)


def source_arguments(end: Endpoint, *, listen: bool = False) -> list[str]:
    """Arguments of the program that writes the source to its standard output, as NUT.

    Pictures are yuv420p, upright, with the source's own time stamps; sound, where there is any, is 16-bit stereo at
    48 kHz. A file is read at the pace of its clock. `listen`: wait at an rtmp address for somebody to send.
    """
    if listen and end.kind is not Kind.RTMP:
        raise InputError("Only an rtmp source can be waited for.", where="--listen", do="Leave it out.")
    # Without a limit the program studies a stream for five seconds before it hands out the first picture.
    before = ["-nostdin", "-flags", "low_delay", "-probesize", "1000000", "-analyzeduration", "500000"]
    if end.kind is Kind.FILE:
        before = ["-nostdin", "-re"]
    elif end.kind is Kind.CAMERA:
        before += ["-f", "v4l2"]
    elif end.kind is Kind.RTSP:
        before += ["-rtsp_transport", "tcp"]
    elif listen:
        before += ["-listen", "1"]
    return [
        *before,
        *("-protocol_whitelist", _PROTOCOLS[end.kind], "-i", _named(end)),
        *("-map", "0:v:0", "-map", "0:a:0?", "-fps_mode", "passthrough"),
        *("-c:v", "rawvideo", "-pix_fmt", "yuv420p"),
        *("-c:a", "pcm_s16le", "-ar", str(SAMPLE_RATE), "-ac", "2"),
        *("-f", "nut", "-flush_packets", "1", "-max_interleave_delta", "200000", "pipe:1"),
    ]


def sink_arguments(end: Endpoint, *, rate: float, metadata: Mapping[str, str]) -> list[str]:
    """Arguments of the program that reads NUT from its standard input and sends it to the sink, H.264 without delay.

    `rate` is the source's frames a second: a key frame comes every two seconds. WHIP asks for Opus; the rest gets AAC.
    """
    sound = ["libopus", "-b:a", "96k"] if end.kind is Kind.WHIP else ["aac", "-b:a", "160k"]
    return [
        *("-analyzeduration", "0"),
        *("-protocol_whitelist", "pipe", "-f", "nut", "-i", "pipe:0"),
        *("-map", "0", "-fps_mode", "passthrough", "-enc_time_base:v", "demux"),
        *("-c:v", "libx264", "-preset", "veryfast", "-tune", "zerolatency", "-profile:v", "high", "-bf", "0"),
        *("-crf", "20", "-g", str(max(1, round(rate * KEY_SECONDS)))),
        *("-c:a", *sound),
        *(word for key, value in metadata.items() for word in ("-metadata", f"{key}={value}")),
        *_output(end),
    ]


def _output(end: Endpoint) -> list[str]:
    if end.kind is Kind.FILE:
        form = _FILES[Path(end.address).suffix.lower()]
        tags = ["-movflags", "+faststart+use_metadata_tags"] if form in ("mp4", "mov") else []
        return [*tags, "-f", form, "-y", _named(end)]
    form = {Kind.RTMP: "flv", Kind.SRT: "mpegts", Kind.WHIP: "whip"}[end.kind]
    return ["-flush_packets", "1", "-f", form, _named(end)]


def _named(end: Endpoint) -> str:
    """The address as the program must hear it: a path is never taken for a protocol or an option."""
    return f"file:{end.address}" if end.kind is Kind.FILE else end.address
