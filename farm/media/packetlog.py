"""What a scan saw of each packet of the picture stream, and where in the plate its bytes lie.

MP4 and QuickTime keep a packet's bytes in one piece, and the demuxer says where. Segments can then be made of pieces of
the plate, and no packet is read, or goes through Python, a second time.
"""

from __future__ import annotations

import os
import zlib
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from farm.errors import PlanMismatchError
from farm.media.decoder import DecoderSetup, Stamp
from farm.media.facts import PlateFacts
from farm.media.packets import PacketReader, open_packets
from farm.media.randomaccess import start_test
from farm.media.segmentfile import SegmentFileWriter, encode_head

_COMPARED = 8
"""Packets at the start whose bytes are compared with the plate's, all of them."""
_EDGE = 32
"""Bytes at both ends of every packet that must be found again where the demuxer said that it lies."""
_SPAN_BYTES = 1 << 20
_SPAN_PACKETS = 300
"""Three pieces each: below what one call of the system writes."""


def keeps_packets_whole(facts: PlateFacts) -> bool:
    """Whether the plate's container keeps the bytes of each packet in one piece, where the demuxer says."""
    return "mp4" in facts.container.split(",")


class PacketLog:
    """Grows with a scan (`begin`, then `add` for every packet); some 120 bytes a packet.

    `starts` are the ordinals at which decoding may start, with their pts; `exact` says whether the packets' places
    were right so far.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.setup: DecoderSetup | None = None
        self.starts: list[tuple[int, int | None]] = []
        self.exact = True
        self._heads: list[bytes] = []
        self._size, self._place = array("Q"), array("q")
        self._crc, self._edges = array("Q"), array("Q")
        self._may_start = start_test("", None)

    def __len__(self) -> int:
        return len(self._heads)

    def begin(self, reader: PacketReader, codec: str) -> None:
        """What is needed to read the packets that `reader` is going to give; `codec` is FFmpeg's name."""
        self.setup = reader.setup
        self._may_start = start_test(codec, reader.setup.extradata_bytes)

    def add(self, packet: Any) -> None:
        """The next packet, with its own clock."""
        ordinal, data, key, place = len(self._heads), memoryview(packet), packet.is_keyframe, packet.pos
        stamp = Stamp(packet.pts, packet.dts, packet.duration or 0)
        side_data = tuple([(str(s.data_type), bytes(s)) for s in packet.iter_sidedata()])
        head = encode_head(ordinal, stamp, (key, packet.is_discard, packet.is_corrupt), side_data, len(data))
        self._heads.append(head)
        self._size.append(len(data))
        self._place.append(-1 if place is None else place)
        # Of what the demuxer gave: whoever reads the segment proves that the plate's bytes are the same.
        self._crc.append(zlib.crc32(data, zlib.crc32(head)))
        self._edges.append(_edges(data))
        if self._may_start(bytes(data) if key else b"", key, ordinal):
            self.starts.append((ordinal, stamp.pts))
        if place is None or place < 0 or (ordinal < _COMPARED and not self._is_there(place, data)):
            self.exact = False

    def _is_there(self, place: int, data: memoryview) -> bool:
        with self._path.open("rb") as plate:
            return os.pread(plate.fileno(), len(data), place) == bytes(data)

    def read_rest(self, facts: PlateFacts) -> None:
        """Add the packets behind those that are known, where the scan did not come to its end."""
        with open_packets(self._path, facts) as reader:
            if self.setup is None:
                self.begin(reader, facts.video.codec)
            for ordinal, packet in reader:
                if ordinal >= len(self):
                    self.add(packet)

    def copy(self, plate: int, file: SegmentFileWriter, first: int, last: int) -> None:
        """Write the records of packets first..last, their bytes read from the plate (an open file's descriptor).

        PlanMismatchError where they are not those that were scanned.
        """
        buffer = bytearray(_SPAN_BYTES)
        for low, high in self._spans(first, last):
            begin = self._place[low]
            due = self._place[high - 1] + self._size[high - 1] - begin
            if due > len(buffer):
                buffer = bytearray(due)
            view = memoryview(buffer)
            if os.preadv(plate, [view[:due]], begin) != due:
                raise _elsewhere(low)
            pieces: list[bytes | memoryview] = []
            for ordinal in range(low, high):
                at = self._place[ordinal] - begin
                data = view[at : at + self._size[ordinal]]
                if _edges(data) != self._edges[ordinal]:
                    raise _elsewhere(ordinal)
                pieces += (self._heads[ordinal], data, self._crc[ordinal].to_bytes(4, "little"))
            file.write_records(pieces, high - low)

    def _spans(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Packets [low, high) that lie behind one another, close enough to be read at once."""
        low, begin = first, self._place[first]
        for ordinal in range(first + 1, last + 1):
            place = self._place[ordinal]
            end = place + self._size[ordinal] - begin
            before = self._place[ordinal - 1] + self._size[ordinal - 1]
            if place < before or end > _SPAN_BYTES or ordinal - low == _SPAN_PACKETS:
                yield low, ordinal
                low, begin = ordinal, place
        yield low, last + 1


def _edges(data: memoryview) -> int:
    return zlib.crc32(data[-_EDGE:], zlib.crc32(data[:_EDGE]))


def _elsewhere(ordinal: int) -> PlanMismatchError:
    return PlanMismatchError(
        "Its bytes are not where the container said a moment before.",
        where=f"the plate's packet {ordinal}",
        do="Plan again by decoding the whole plate.",
    )
