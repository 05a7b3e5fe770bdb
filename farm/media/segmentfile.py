"""The segment file: packets of the plate's picture, untouched, with their own clocks, and how to decode them.

Layout, little-endian: 8 bytes magic; u32 length and that many bytes of JSON (SegmentHeader); its u32
CRC-32; records; an end record.
A record: i64 ordinal, pts, dts, duration; u8 flags; u8 count of side data; u32 size; for each side data u8 length of
its name, the name, u32 size, bytes; the packet; u32 CRC-32 of all of it. The end record has ordinal -1 and the number
of records as its pts, so that a file that was cut off is noticed. No other container keeps every codec's packets,
missing time stamps and any time base as they are.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from farm.errors import InfrastructureError
from farm.media.decoder import CodedPacket, DecoderSetup, Stamp
from farm.media.frameindex import FrameIndex, Want

_MAGIC = b"FARMSEG1"
_RECORD = struct.Struct("<qqqqBBI")
_KEY, _DISCARD, _CORRUPT, _NO_PTS, _NO_DTS = 1, 2, 4, 8, 16
_END = -1
_MAX_HEADER = 16 * 1024 * 1024
_BATCH_BYTES = 1 << 20
_BATCH_PIECES = 900
"""Below what one call of the system takes (1024 pieces)."""


class SegmentHeader(BaseModel):
    """What a segment holds.

    `coding` is "copy" (the plate's own packets, numbered by ordinal) or "lossless" (each record one frame, numbered by
    its index in the timeline, planes coded by FFV1, because the plate's packets cannot be cut). `low` and `high` are
    the frames [low, high) that can be read, context included; `first` and `last` the chunk's own. `frames` has the
    packet's ordinal and the pts of each frame in [low, high).
    """

    model_config = ConfigDict(frozen=True)

    coding: Literal["copy", "lossless"]
    first: int
    last: int
    low: int
    high: int
    frames: list[tuple[int, int]]
    setup: DecoderSetup

    @classmethod
    def of(cls, coding: Literal["copy", "lossless"], want: Want, index: FrameIndex, setup: DecoderSetup) -> Self:
        """The header of a segment that gives what `want` names."""
        low, high = want.low, want.high
        return cls(
            coding=coding,
            first=want.first,
            last=want.last,
            low=low,
            high=high,
            frames=index.part(low, high),
            setup=setup,
        )


@dataclass(frozen=True, slots=True)
class Segment:
    """A finished segment file.

    `coding` says whether it holds the plate's own packets ("copy") or frames coded anew without loss ("lossless");
    `run_up` how many packets come before the first that is wanted; `size` is bytes.
    """

    path: Path
    first: int
    last: int
    coding: str
    packets: int
    run_up: int
    size: int


SideData = tuple[tuple[str, bytes], ...]
"""(kind, bytes) pairs that come with a packet."""
Record = tuple[bytes, bytes, bytes]
"""A record in three pieces, so that a packet is not copied once more: what is before it, the packet, the CRC-32."""


class SegmentFileWriter:
    """Writes one segment; use as a context manager, or call close().

    Records are gathered and written many at a time; `size` is how many bytes there are so far. An error of the disk is
    raised by a write, or by close().
    """

    def __init__(self, path: Path, header: SegmentHeader) -> None:
        self.path = path
        self.header = header
        self.records = 0
        self._file = path.open("wb", buffering=0)
        text = header.model_dump_json().encode()
        self._batch = [_MAGIC + struct.pack("<I", len(text)) + _with_crc(text)]
        self._bytes = len(self._batch[0])
        self.size = self._bytes

    def write(self, record: Record) -> None:
        """Append one record made by `encode_record`."""
        self._append(record)
        self.records += 1

    def write_records(self, pieces: Sequence[bytes | memoryview], count: int) -> None:
        """Append `count` records in pieces, at most 1024; they are written when this returns."""
        self._flush()
        self.size += _write_all(self._file, pieces)
        self.records += count

    def _append(self, pieces: tuple[bytes, ...]) -> None:
        self._batch += pieces
        size = sum(map(len, pieces))
        self._bytes += size
        self.size += size
        if self._bytes >= _BATCH_BYTES or len(self._batch) >= _BATCH_PIECES:
            self._flush()

    def _flush(self) -> None:
        if self._batch:
            _write_all(self._file, self._batch)
            self._batch, self._bytes = [], 0

    def close(self) -> int:
        """Write the end record; returns the file's size."""
        self._append((_with_crc(_RECORD.pack(_END, self.records, 0, 0, 0, 0, 0)),))
        try:
            self._flush()
        finally:
            self._file.close()
        return self.size

    def abandon(self) -> None:
        """Close and remove the unfinished file."""
        self._file.close()
        self.path.unlink(missing_ok=True)

    def __enter__(self) -> SegmentFileWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()


def _write_all(file: FileIO, pieces: Sequence[bytes | memoryview]) -> int:
    """All the pieces, however many bytes the system takes at a time; how many bytes there were."""
    due = sum(map(len, pieces))
    written = os.writev(file.fileno(), pieces)
    if written < due:
        rest = memoryview(b"".join(pieces))[written:]
        while rest:
            rest = rest[file.write(rest) :]
    return due


def encode_record(packet: CodedPacket) -> Record:
    """The pieces of one record."""
    flags = packet.key, packet.discard, packet.corrupt
    head = encode_head(packet.ordinal, packet.stamp, flags, packet.side_data, len(packet.data))
    return head, packet.data, struct.pack("<I", zlib.crc32(packet.data, zlib.crc32(head)))


def encode_head(ordinal: int, stamp: Stamp, flags: tuple[bool, bool, bool], side_data: SideData, size: int) -> bytes:
    """What stands before a packet of `size` bytes in its record; `flags` are key, discard and corrupt."""
    pts, dts, duration = stamp
    key, discard, corrupt = flags
    bits = key * _KEY | discard * _DISCARD | corrupt * _CORRUPT | (pts is None) * _NO_PTS | (dts is None) * _NO_DTS
    head = _RECORD.pack(ordinal, pts or 0, dts or 0, duration, bits, len(side_data), size)
    if side_data:
        head += b"".join(
            bytes([len(kind)]) + kind.encode("ascii") + struct.pack("<I", len(data)) + data for kind, data in side_data
        )
    return head


def _with_crc(body: bytes) -> bytes:
    return body + struct.pack("<I", zlib.crc32(body))


class SegmentFileReader:
    """Reads a segment front to back. Raises InfrastructureError where the file is not whole."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO = path.open("rb", buffering=1 << 20)
        try:
            self.header = self._read_header()
        except BaseException:
            self._file.close()
            raise

    def _read_header(self) -> SegmentHeader:
        if self._file.read(8) != _MAGIC:
            raise self._broken("it does not begin as a segment does")
        size = int.from_bytes(self._file.read(4), "little")
        if size > _MAX_HEADER:
            raise self._broken("its header is too long")
        text = self._take(size)
        if zlib.crc32(text) != int.from_bytes(self._take(4), "little"):
            raise self._broken("the checksum of its header does not match")
        try:
            return SegmentHeader.model_validate_json(text)
        except ValidationError:
            raise self._broken("its header cannot be read") from None

    def __iter__(self) -> Iterator[CodedPacket]:
        count = 0
        while True:
            packet = self._read_record()
            if packet.ordinal == _END:
                if packet.stamp.pts != count:
                    raise self._broken(f"{packet.stamp.pts} packets were written, {count} are there")
                return
            count += 1
            yield packet

    def _read_record(self) -> CodedPacket:
        head = self._take(_RECORD.size)
        crc = zlib.crc32(head)
        ordinal, pts, dts, duration, flags, kinds, size = _RECORD.unpack(head)
        side_data = []
        for _ in range(kinds):
            length = self._take(1)
            name = self._take(length[0])
            bulk = self._take(4)
            data = self._take(int.from_bytes(bulk, "little"))
            crc = zlib.crc32(length + name + bulk + data, crc)
            side_data.append((name.decode("ascii", "replace"), data))
        payload = self._take(size)
        if zlib.crc32(payload, crc) != int.from_bytes(self._take(4), "little"):
            raise self._broken("a checksum does not match")
        stamp = Stamp(None if flags & _NO_PTS else pts, None if flags & _NO_DTS else dts, duration)
        key, discard, corrupt = bool(flags & _KEY), bool(flags & _DISCARD), bool(flags & _CORRUPT)
        return CodedPacket(ordinal, stamp, payload, key, discard, corrupt, None, tuple(side_data))

    def _take(self, size: int) -> bytes:
        data = self._file.read(size)
        if len(data) != size:
            raise self._broken("it ends too early")
        return data

    def _broken(self, reason: str) -> InfrastructureError:
        return InfrastructureError(
            f"The segment file is damaged: {reason}.",
            where=f"byte {self._file.tell()} of the segment",
            do="It will be fetched or cut again.",
        )

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> SegmentFileReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
