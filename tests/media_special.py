"""Test media that no muxer or encoder writes by itself: boxes, elements and packets changed by hand."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import av
from av import Packet

from tests.media_tools import ffmpeg, picture
from tests.paff import paff_stream


class Factory(Protocol):
    def make(self, name: str) -> Path: ...

    def make_custom(self, suffix: str, *arguments: str) -> Path: ...


Special = Callable[[Factory, Path], None]


# MP4 boxes


def _boxes(data: bytes, at: int, end: int) -> Iterator[tuple[bytes, int, int]]:
    while at + 8 <= end:
        size = int.from_bytes(data[at : at + 4], "big")
        yield data[at + 4 : at + 8], at, at + size
        at += size


def _change(data: bytes, path: list[bytes], make: Callable[[bytes], bytes]) -> bytes:
    """The file with what is in the box at `path` (its first trak where there are several) made anew.

    The index must come after the samples, so that no offset changes.
    """
    assert data.index(b"mdat") < data.index(b"moov")
    chain, at, end = [], 0, len(data)
    for kind in path:
        start, stop = next((s, e) for k, s, e in _boxes(data, at, end) if k == kind)
        chain.append(start)
        at, end = start + 8 + {b"stsd": 8, b"hev1": 78}.get(kind, 0), stop
    new = make(data[at:end])
    out = bytearray(data[:at] + new + data[end:])
    for start in chain:
        size = int.from_bytes(out[start : start + 4], "big") + len(new) - (end - at)
        out[start : start + 4] = size.to_bytes(4, "big")
    return bytes(out)


_ELST = [b"moov", b"trak", b"edts", b"elst"]


def _edits(source: str, *edits: tuple[float, float | None, float]) -> Special:
    """An edit list of (seconds, first second of the media or None for nothing, speed), in the place of the file's own.

    The movie's clock ticks 1000 times a second, the picture's 12288 times, as ffmpeg writes them at 24 frames a second.
    """

    def recipe(factory: Factory, path: Path) -> None:
        entries = [
            struct.pack(">Iii", round(seconds * 1000), -1 if at is None else round(at * 12288), round(rate * 65536))
            for seconds, at, rate in edits
        ]
        box = bytes(4) + struct.pack(">I", len(entries)) + b"".join(entries)
        path.write_bytes(_change(factory.make(source).read_bytes(), _ELST, lambda _: box))

    return recipe


def _wrong_mp4_duration(factory: Factory, path: Path) -> None:
    """Movie, track and media all claim to be ten times as long."""

    def longer(at: int) -> Callable[[bytes], bytes]:
        return lambda box: box[:at] + (10 * int.from_bytes(box[at : at + 4], "big")).to_bytes(4, "big") + box[at + 4 :]

    data = factory.make("h264_closed.mp4").read_bytes()
    data = _change(data, [b"moov", b"mvhd"], longer(16))
    data = _change(data, [b"moov", b"trak", b"tkhd"], longer(20))
    path.write_bytes(_change(data, [b"moov", b"trak", b"mdia", b"mdhd"], longer(16)))


# Matroska elements


def _wrong_mkv_duration(factory: Factory, path: Path) -> None:
    data = bytearray(factory.make("h264_open.mkv").read_bytes())
    at = data.index(b"\x44\x89\x88") + 3
    data[at : at + 8] = struct.pack(">d", 10 * struct.unpack(">d", data[at : at + 8])[0])
    path.write_bytes(data)


def _element(kind: bytes, content: bytes) -> bytes:
    return kind + (len(content) | 1 << 56).to_bytes(8, "big") + content


def _ordered(factory: Factory, path: Path) -> None:
    """Chapters that play the second half first, before the first cluster of a file that was written to a pipe."""
    data = factory.make("h264_piped.mkv").read_bytes()
    atoms = b"".join(
        _element(
            b"\xb6",
            _element(b"\x73\xc4", bytes([number]))
            + _element(b"\x91", (start * 10**9).to_bytes(8, "big"))
            + _element(b"\x92", ((start + 2) * 10**9).to_bytes(8, "big")),
        )
        for number, start in enumerate((2, 0), 1)
    )
    chapters = _element(b"\x10\x43\xa7\x70", _element(b"\x45\xb9", _element(b"\x45\xdd", b"\1") + atoms))
    at = data.index(b"\x1f\x43\xb6\x75")
    path.write_bytes(data[:at] + chapters + data[at:])


# transport streams


def _paff(factory: Factory, path: Path) -> None:
    stream = path.with_suffix(".264")
    stream.write_bytes(paff_stream())
    ffmpeg("-f", "h264", "-framerate", "25", "-i", str(stream), "-c", "copy", str(path))
    stream.unlink()


def _pcr_gap(factory: Factory, path: Path) -> None:
    """The middle third of the stream has no program clock."""
    data = bytearray(factory.make("h264.ts").read_bytes())
    for at in range(len(data) // 3 // 188 * 188, len(data) * 2 // 3, 188):
        if data[at + 3] & 0x20 and data[at + 4] >= 7 and data[at + 5] & 0x10:
            data[at + 5] &= ~0x10
            data[at + 6 : at + 12] = b"\xff" * 6
    path.write_bytes(data)


def _clock_gap(factory: Factory, path: Path) -> None:
    """Clocks of picture and sound jump seven seconds ahead in the middle."""
    source = ["-i", str(factory.make("h264.ts")), "-map", "0", "-c", "copy"]
    later = factory.make_custom(".ts", *source, "-output_ts_offset", "9")
    path.write_bytes(factory.make("h264.ts").read_bytes() + later.read_bytes())


def _broken_sound(source: str) -> Special:
    """Every tenth packet of the sound has noise in it."""

    def recipe(factory: Factory, path: Path) -> None:
        whole = factory.make(source)
        data = bytearray(whole.read_bytes())
        with av.open(str(whole)) as container:
            places = [p.pos for p in container.demux(container.streams.audio[0]) if p.size and p.pos is not None]
        for place in places[3::10]:
            data[place + 24 : place + 64] = bytes((place + 91 * i) % 256 for i in range(40))
        path.write_bytes(data)

    return recipe


# containers that break in the middle


def _broken(frames: int, good: int) -> Special:
    """An APNG of `frames` pictures in which no chunk can be read behind picture `good`."""

    def recipe(factory: Factory, path: Path) -> None:
        source = [*picture("32x18", rate="50", seconds=frames / 50), "-f", "apng", "-plays", "0"]
        data = bytearray(factory.make_custom(".apng", *source).read_bytes())
        at = -1
        for _ in range(good + 1):
            at = data.index(b"fcTL", at + 1)
        data[at - 4 :] = b"\xff" * len(data[at - 4 :])
        path.write_bytes(data)

    return recipe


# HEVC's dynamic metadata


def _escaped(body: bytes) -> bytes:
    out, zeros = bytearray(), 0
    for byte in body:
        if zeros >= 2 and byte <= 3:
            out.append(3)
            zeros = 0
        out.append(byte)
        zeros = zeros + 1 if byte == 0 else 0
    return bytes(out)


def _bits(*fields: tuple[int, int]) -> bytes:
    """Fields of (width, value), filled up with zeros to whole bytes."""
    text = "".join(f"{value:0{width}b}" for width, value in fields)
    text += "0" * (-len(text) % 8)
    return int(text, 2).to_bytes(len(text) // 8, "big")


def _ue(value: int) -> tuple[int, int]:
    return 2 * (value + 1).bit_length() - 1, value + 1


def hdr10_plus_unit() -> bytes:
    """A prefix SEI unit with SMPTE ST 2094-40 metadata (ITU-T T.35) of one window."""
    window = [(17, 20_000)] * 4 + [(4, 1), (7, 99), (17, 15_000), (10, 5), (1, 0), (1, 0)]
    payload = bytes.fromhex("b5003c00010401") + _bits((2, 1), (27, 400), (1, 0), *window, (1, 0))
    return _escaped(b"\x4e\x01" + bytes([4, len(payload)]) + payload + b"\x80")


def dolby_vision_unit() -> bytes:
    """A unit of type 62 with a Dolby Vision RPU of profile 8 that maps the picture to itself."""
    sequence = [(1, 0), (2, 0), _ue(23), (2, 1), (1, 0), _ue(2), _ue(2), _ue(4), (1, 0), (3, 0), (1, 0), (1, 1)]
    pivots = [_ue(0), (10, 0), (10, 1023)] * 3
    line = [_ue(0), _ue(0), (1, 0), _ue(0), (23, 0), _ue(1), (23, 0)]
    body = _bits(
        *[(6, 2), (11, 18), (4, 1), (4, 0), (1, 1), *sequence, (1, 0), (1, 0), _ue(0), _ue(0), _ue(0)],
        *[*pivots, _ue(0), _ue(0), *line, *line, *line],
    )
    crc = _mpeg_crc(body)
    return _escaped(b"\x7c\x01\x19" + body + crc.to_bytes(4, "big") + b"\x80")


def _mpeg_crc(data: bytes) -> int:
    """CRC-32/MPEG-2, by the reflected one of zlib on mirrored bits."""
    mirrored = bytes(int(f"{byte:08b}"[::-1], 2) for byte in data)
    return int(f"{zlib.crc32(mirrored) ^ 0xFFFFFFFF:032b}"[::-1], 2)


def _with_units(before: bytes, after: bytes, box: bytes) -> Special:
    """Each packet of an HDR10 film with a unit before or after it, and a box in the picture's sample entry."""

    def framed(unit: bytes) -> bytes:
        return len(unit).to_bytes(4, "big") + unit if unit else b""

    def recipe(factory: Factory, path: Path) -> None:
        with av.open(str(factory.make("hevc_10_pq.mp4"))) as source, av.open(str(path), "w", format="mp4") as out:
            given: Any = source.streams.video[0]
            stream: Any = out.add_stream_from_template(given)
            for packet in source.demux(given):
                if packet.size:
                    new: Any = Packet(framed(before) + bytes(packet) + framed(after))
                    new.pts, new.dts, new.duration = packet.pts, packet.dts, packet.duration
                    new.time_base, new.is_keyframe, new.stream = given.time_base, packet.is_keyframe, stream
                    out.mux(new)
        if box:
            entry = [b"moov", b"trak", b"mdia", b"minf", b"stbl", b"stsd", b"hev1"]
            path.write_bytes(_change(path.read_bytes(), entry, lambda content: content + box))

    return recipe


# Version 1.0, profile 8, level 1, RPU and base layer there, compatible with HDR10.
_DOLBY_RECORD = _bits((8, 1), (8, 0), (7, 8), (6, 1), (1, 1), (1, 0), (1, 1), (4, 1)).ljust(24, b"\0")
_DOLBY_BOX = (32).to_bytes(4, "big") + b"dvvC" + _DOLBY_RECORD

SPECIAL: dict[str, Special] = {
    "h264_paff.ts": _paff,
    "h264_paff.mkv": _paff,
    # MP4 edit lists
    "edit_positive.mp4": _edits("h264_closed.mp4", (0.5, None, 1), (3, 2 / 24, 1)),
    "edit_cut.mp4": _edits("h264_closed.mp4", (1.5, 1.25, 1)),
    "edit_gap.mp4": _edits("h264_closed.mp4", (1, 2 / 24, 1), (0.5, None, 1), (1, 1 + 2 / 24, 1)),
    "edit_preroll.mp4": _edits("h264_long_gop.mp4", (1, 4.5, 1)),
    "edit_swapped.mp4": _edits("h264_closed.mp4", (1, 2 + 2 / 24, 1), (1, 2 / 24, 1)),
    "edit_fast.mp4": _edits("h264_closed.mp4", (1, 2 / 24, 1), (1, 1 + 2 / 24, 2)),
    "edit_still.mp4": _edits("h264_closed.mp4", (1, 2 / 24, 1), (2, 1 + 2 / 24, 0)),
    "wrong_duration.mp4": _wrong_mp4_duration,
    "wrong_duration.mkv": _wrong_mkv_duration,
    "ordered_chapters.mkv": _ordered,
    "h264_pcr_gap.ts": _pcr_gap,
    "h264_clock_gap.ts": _clock_gap,
    "broken_sound.mp4": _broken_sound("h264_audio.mp4"),
    "broken_sound.ts": _broken_sound("h264.ts"),
    "broken.apng": _broken(50, 20),
    "broken_late.apng": _broken(500, 450),
    "hevc_hdr10_plus.mp4": _with_units(hdr10_plus_unit(), b"", b""),
    "hevc_dolby_vision.mp4": _with_units(b"", dolby_vision_unit(), _DOLBY_BOX),
}
