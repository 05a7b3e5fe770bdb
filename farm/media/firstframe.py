"""What only a decoded picture tells about a plate: chroma location, display matrix, HDR side data, field order."""

from __future__ import annotations

import base64
import re
import struct
from dataclasses import dataclass, field
from typing import Any

import av.error
import av.filter
import av.logging
from av import VideoFrame
from av.container import InputContainer
from av.video.stream import VideoStream

from farm.errors import InputError
from farm.media.names import CHROMA_LOCATIONS
from farm.words import counted

_PACKETS_TO_TRY = 600
_NOT_KEPT = ("H.26[45] User Data", "ATSC A53", "GOP timecode", "AVPanScan", "3x3 displaymatrix", "regions", "Encoding")


@dataclass(frozen=True)
class FirstFrame:
    """The first picture that decodes, and what is said about it.

    `side_data`: FFmpeg's name → base64 of its bytes, or its text where the bytes are out of reach.
    """

    picture: VideoFrame
    chroma_location: str = "unknown"
    display_matrix: tuple[int, ...] | None = None
    side_data: dict[str, Any] = field(default_factory=dict)


def first_frame(container: InputContainer, stream: VideoStream, where: str) -> FirstFrame:
    """Decode as far as the first picture. Raises InputError when there is none."""
    tried = 0
    reason = "no picture came out"
    for packet in container.demux(stream):
        tried += packet.size > 0
        try:
            frames = packet.decode()
        except av.error.FFmpegError as error:
            reason, frames = str(error.strerror), []
        for frame in frames:
            if isinstance(frame, VideoFrame):
                return _describe(frame, stream)
        if tried > _PACKETS_TO_TRY:
            break
    raise InputError(
        f"Not one frame of the {stream.codec_context.name} picture can be decoded ({reason}; "
        f"{counted(tried, 'packet')} tried).",
        where=where,
        do="Check the file in a player; copy it again if it plays nowhere.",
    )


def _describe(frame: VideoFrame, stream: VideoStream) -> FirstFrame:
    text = _showinfo(frame, stream)
    location = re.search(r"\bcl:([a-z]+)", text)
    names = [n.split(":")[0].strip() for n in re.findall(r"side data - ([^\n]*)", text)]
    texts = dict(re.findall(r"side data - ([^:\n]+): ([^\n]*)", text))
    try:
        entries: list[Any] = list(frame.side_data)
        raw = [bytes(entry) for entry in entries]
    except ValueError:  # PyAV knows fewer kinds than FFmpeg and then gives none
        raw = []
    data = dict(zip(names, raw, strict=True)) if len(names) == len(raw) else {}
    matrix = data.get("3x3 displaymatrix")
    return FirstFrame(
        frame,
        location.group(1) if location and location.group(1) in CHROMA_LOCATIONS else "unknown",
        struct.unpack("9i", matrix[:36]) if matrix and len(matrix) >= 36 else None,
        {
            name: base64.b64encode(data[name]).decode() if name in data else texts.get(name, "").strip()
            for name in names
            if not name.startswith(_NOT_KEPT)
        },
    )


def _showinfo(frame: VideoFrame, stream: VideoStream) -> str:
    """What FFmpeg's own showinfo filter says of the frame; it names more than PyAV does."""
    graph = av.filter.Graph()
    source, info, sink = graph.add_buffer(template=stream), graph.add("showinfo"), graph.add("buffersink")
    source.link_to(info)
    info.link_to(sink)
    before = av.logging.get_level()
    av.logging.set_level(av.logging.INFO)
    try:
        graph.configure()
        with av.logging.Capture(local=False) as lines:
            graph.push(frame)
            graph.pull()
    except (av.error.FFmpegError, ValueError):
        return ""
    finally:
        av.logging.set_level(before)
    return "".join(line[2] for line in lines)


def stream_side_data(container: InputContainer, index: int) -> dict[str, str]:
    """Side data that the container states for a stream (Dolby Vision, spherical, ...), as FFmpeg's text."""
    found: dict[str, str] = {}
    ours = inside = False
    dump: Any = container
    for line in str(dump.dumps_format()).splitlines():
        if line.startswith("  Stream #"):
            ours, inside = line.startswith(f"  Stream #0:{index}"), False
        elif ours and line.strip() == "Side data:":
            inside = True
        elif ours and inside and ": " in line:
            name, text = line.strip().split(": ", 1)
            found[name] = text
    found.pop("CPB properties", None)
    return {name: text for name, text in found.items() if not name.startswith("displaymatrix")}
