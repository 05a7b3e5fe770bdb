"""What containers ask of players beyond pictures at their times, so that a person hears what becomes of it.

The farm's frames are those of a plain decode, and FFmpeg does not do all that it is asked. MP4's edit lists may play a
part at another speed or leave a gap between two (ISO/IEC 14496-12, `elst`), and Matroska's ordered chapters play parts
in another order, of other files too (RFC 9559, EditionFlagOrdered). Only headers are read.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from farm.media.facts import PlateWarning

_MOST_PARTS = 20_000
_MOST_EDITS = 4096


class Part(NamedTuple):
    """A box or element: its kind, and the bytes [start, end) of what is in it."""

    kind: bytes
    start: int
    end: int


def structure_warnings(path: Path, container: str) -> tuple[PlateWarning, ...]:
    """What players may show otherwise than a plain decode, each in a sentence that says which frames are taken.

    `container` is FFmpeg's name of the demuxer.
    """
    kinds = container.split(",")
    with path.open("rb") as file:
        if "mp4" in kinds:
            return tuple(_edits(file, path.stat().st_size))
        if "matroska" in kinds and _has_ordered_chapters(file, path.stat().st_size):
            text = (
                "The film is made of ordered chapters: players may show its parts in an order of their own, or take "
                "some from other files. Each frame of this file is taken once, in the order of the file, as FFmpeg "
                "decodes it."
            )
            return (PlateWarning(code="ordered_chapters", text=text),)
    return ()


def _edits(file: BinaryIO, size: int) -> Iterator[PlateWarning]:
    traks = (part for part in _inside(file, b"moov", _boxes(file, 0, size)) if part.kind == b"trak")
    for number, trak in enumerate(traks, 1):
        for edit in _inside(file, b"edts", _boxes(file, trak.start, trak.end)):
            for code, words in _strange_edits(file, edit) if edit.kind == b"elst" else ():
                yield PlateWarning(code=code, text=f"The edit list of track {number} {words}.")


def composition_offsets(file: BinaryIO, size: int) -> NDArray[np.int64] | None:
    """How many ticks after its dts each packet of an MP4 file's first track is shown; None where all are at once."""
    path = (b"moov", b"trak", b"mdia", b"minf", b"stbl")
    parts = _boxes(file, 0, size)
    for kind in path:
        parts = _inside(file, kind, parts)
    for box in parts:
        if box.kind == b"ctts":
            file.seek(box.start + 4)
            runs = np.frombuffer(file.read(4 + 8 * ((box.end - box.start - 8) // 8))[4:], ">u4").reshape(-1, 2)
            return np.repeat(runs[:, 1].astype(np.int32).astype(np.int64), runs[:, 0])
    return None


def _inside(file: BinaryIO, kind: bytes, parts: Iterator[Part]) -> Iterator[Part]:
    for part in parts:
        if part.kind == kind:
            yield from _boxes(file, part.start, part.end)


def _boxes(file: BinaryIO, at: int, end: int) -> Iterator[Part]:
    """The boxes of an MP4 file in [at, end); stops at one that does not fit."""
    for _ in range(_MOST_PARTS):
        file.seek(at)
        head = file.read(16)
        if at + 8 > end or len(head) < 8:
            return
        size, length = int.from_bytes(head[:4], "big"), 8
        if size == 1:
            size, length = int.from_bytes(head[8:16], "big"), 16
        elif size == 0:
            size = end - at
        if size < length or at + size > end:
            return
        yield Part(head[4:8], at + length, at + size)
        at += size


_TAKEN = "its frames are taken once each, at the speed that they were recorded in, as FFmpeg decodes them"


def _strange_edits(file: BinaryIO, box: Part) -> Iterator[tuple[str, str]]:
    """(code, words) of the first part of each kind in an edit list that is more than a cut."""
    file.seek(box.start)
    head = file.read(8)
    if len(head) < 8:
        return
    entry = struct.Struct(">Qqi" if head[0] == 1 else ">Iii")
    begun, said = False, set()
    for number in range(1, 1 + min(int.from_bytes(head[4:8], "big"), _MOST_EDITS)):
        data = file.read(entry.size)
        if len(data) < entry.size or file.tell() > box.end:
            return
        _, media_time, rate = entry.unpack(data)
        found = _strangeness(number, media_time, rate, begun=begun)
        if found is not None and found[0] not in said:
            said.add(found[0])
            yield found
        begun = begun or media_time >= 0


def _strangeness(number: int, media_time: int, rate: int, *, begun: bool) -> tuple[str, str] | None:
    if media_time < 0:
        words = f"shows nothing for a while before part {number}: the frame before lasts until then"
        return ("edit_gap", words) if begun else None
    if rate == 0:
        return "edit_still", f"holds the first picture of part {number} as a still: {_TAKEN}"
    if rate != 1 << 16:
        return "edit_speed", f"plays part {number} at {rate / (1 << 16):g} times its speed: {_TAKEN}"
    return None


_SEGMENT, _CLUSTER, _SEEK_HEAD = b"\x18\x53\x80\x67", b"\x1f\x43\xb6\x75", b"\x11\x4d\x9b\x74"
_CHAPTERS, _EDITION, _ORDERED = b"\x10\x43\xa7\x70", b"\x45\xb9", b"\x45\xdd"
_SEEK, _SEEK_ID, _SEEK_POSITION = b"\x4d\xbb", b"\x53\xab", b"\x53\xac"


def _has_ordered_chapters(file: BinaryIO, size: int) -> bool:
    segment = next((part for part in _elements(file, 0, size) if part.kind == _SEGMENT), None)
    if segment is None:
        return False
    for part in _elements(file, segment.start, segment.end):
        if part.kind == _CLUSTER:
            return False
        if part.kind == _CHAPTERS and _is_ordered(file, part):
            return True
        if part.kind == _SEEK_HEAD:
            for place in _places_of_chapters(file, part):
                found = next(_elements(file, segment.start + place, segment.end), None)
                if found is not None and found.kind == _CHAPTERS and _is_ordered(file, found):
                    return True
    return False


def _places_of_chapters(file: BinaryIO, head: Part) -> list[int]:
    """Where the index says that chapters are, in bytes from the segment's start."""
    places = []
    for seek in _elements(file, head.start, head.end):
        if seek.kind != _SEEK:
            continue
        values = {part.kind: _value(file, part) for part in _elements(file, seek.start, seek.end)}
        if values.get(_SEEK_ID) == _CHAPTERS:
            places.append(int.from_bytes(values.get(_SEEK_POSITION, b""), "big"))
    return places


def _is_ordered(file: BinaryIO, chapters: Part) -> bool:
    return any(
        part.kind == _ORDERED and int.from_bytes(_value(file, part), "big")
        for edition in _elements(file, chapters.start, chapters.end)
        if edition.kind == _EDITION
        for part in _elements(file, edition.start, edition.end)
    )


def _value(file: BinaryIO, part: Part) -> bytes:
    file.seek(part.start)
    return file.read(min(8, part.end - part.start))


def _elements(file: BinaryIO, at: int, end: int) -> Iterator[Part]:
    """The EBML elements in [at, end); one of unknown size reaches to the end."""
    for _ in range(_MOST_PARTS):
        file.seek(at)
        head = file.read(12)
        if at >= end or not head or head[0] < 0x10:
            return
        width = 9 - head[0].bit_length()
        kind, rest = head[:width], head[width:]
        if not rest or rest[0] == 0:
            return
        length = 9 - rest[0].bit_length()
        value = int.from_bytes(rest[:length], "big") & ((1 << 7 * length) - 1)
        start = at + width + length
        if start > end:
            return
        # What was cut off can still be looked at as far as it goes.
        at = min(end, end if value == (1 << 7 * length) - 1 else start + value)
        yield Part(kind, start, at)
