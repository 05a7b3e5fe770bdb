"""Cut a plate into segments: for each chunk a file of the packets that its frames and their context need.

From a packet log where the plate has one (`farm.media.logcut`), else by reading it again, front to back: a segment is
handed out as soon as its last packet was read, and packets since the last place where decoding may start are kept
aside (in memory, on disk when they are many), since the next chunk begins there.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO, Protocol

from farm.errors import InputError
from farm.media import limits
from farm.media.decoder import CodedPacket, DecoderSetup
from farm.media.facts import PlateFacts
from farm.media.frameindex import FrameIndex, Want
from farm.media.logcut import LogCutter, run_up_limit
from farm.media.lossless import lossless_segments
from farm.media.packetlog import PacketLog
from farm.media.packets import open_packets
from farm.media.randomaccess import start_test
from farm.media.segmentfile import Record, Segment, SegmentFileWriter, SegmentHeader, encode_record
from farm.media.timeline import Timeline

_IN_MEMORY = 32 * 1024 * 1024


class Range(Protocol):
    """A chunk's frames [first, last)."""

    @property
    def first(self) -> int: ...
    @property
    def last(self) -> int: ...


def cut_segments(
    path: Path,
    facts: PlateFacts,
    timeline: Timeline,
    ranges: Iterable[Range],
    folder: Path,
    *,
    before: int = 0,
    after: int = 0,
    lossless: bool = False,
) -> Iterator[Segment]:
    """Segments of `ranges` (which are in order) as files in `folder`, each yielded when it is complete.

    A segment can give the frames [first - before, last + after). `lossless` codes frames anew instead of copying
    packets; it is chosen by itself for chunks whose packets cannot be cut: no place to start decoding within reach, or
    frames that are known not to decode. Those segments come after the others. Raises InputError when the plate does
    not hold the packets that the timeline names.
    """
    index = FrameIndex.of(timeline)
    wants = (index.want(r.first, r.last, before, after) for r in ranges)
    yield from cut_wants(path, facts, index, wants, folder, lossless=lossless)


def cut_wants(
    path: Path,
    facts: PlateFacts,
    index: FrameIndex,
    wants: Iterator[Want],
    folder: Path,
    *,
    lossless: bool = False,
    log: PacketLog | None = None,
    watch: Callable[[int], None] = lambda frames: None,
) -> Iterator[Segment]:
    """The same for wants that are made while the index still grows, and `log`, if there is one, with it.

    `watch` is told of frames that are coded anew, which takes long.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if log is not None:
        wants = chain([first], wants) if (first := next(wants, None)) is not None else iter(())
    # By now the scan has begun, and seen whether packets lie where the container says.
    if log is not None and log.exact:
        logged = LogCutter(path, folder, index, wants, log, facts.video.codec)
        yield from logged.run()
        wants = logged.remaining()
    elif not lossless:
        cutter = _Cutter(folder, index, wants)
        with open_packets(path, facts) as reader:
            yield from cutter.run(reader.setup, facts.video.codec, reader.coded())
        wants = cutter.remaining()
    yield from lossless_segments(path, facts, index, wants, folder, watch)


class _Cutter:
    """Copies packets into the segments that need them."""

    def __init__(self, folder: Path, index: FrameIndex, wants: Iterator[Want]) -> None:
        self._folder = folder
        self._index = index
        self._wants = wants
        self._next: Want | None = next(wants, None)
        self._open: list[_Open] = []
        self._gop = _Spool()
        self._given_up: list[Want] = []
        self._no_start = False
        self._silent = False

    def run(self, setup: DecoderSetup, codec: str, packets: Iterable[CodedPacket]) -> Iterator[Segment]:
        may_start = start_test(codec, setup.extradata_bytes)
        self._silent = codec in limits.SILENT
        ordinal = -1
        try:
            for packet in packets:
                ordinal = packet.ordinal
                if may_start(packet.data, packet.key, ordinal):
                    self._open_unserved(setup, packet)
                    self._gop.restart(ordinal)
                self._write(encode_record(packet))
                self._open_reached(setup, ordinal)
                yield from self._finish(ordinal)
                if not self._open and (self._no_start or self._next is None):
                    return
            self._check_end(ordinal)
            while self._open:
                yield self._open.pop(0).close()
        finally:
            for unfinished in self._open:
                unfinished.file.abandon()
            self._gop.close()

    def remaining(self) -> Iterator[Want]:
        """Wants that must be met by coding anew."""
        yield from self._given_up
        if self._next is not None:
            yield self._next
        yield from self._wants

    def _write(self, record: Record) -> None:
        self._gop.write(record)
        for segment in self._open:
            segment.file.write(record)

    def _open_unserved(self, setup: DecoderSetup, start: CodedPacket) -> None:
        """Before the packets kept aside are dropped: open the segments that cannot begin at `start`."""
        while self._next is not None and not self._index.serves(self._next, start.ordinal, start.stamp.pts):
            self._open_next(setup)

    def _open_reached(self, setup: DecoderSetup, ordinal: int) -> None:
        """Open the segments whose first wanted packet was read: no better start can come."""
        while self._next is not None and self._next.begin <= ordinal:
            self._open_next(setup)

    def _open_next(self, setup: DecoderSetup) -> None:
        want, self._next = self._next, None
        if want is None:
            return
        run_up = want.begin - self._gop.start
        if self._gop.start < 0 or run_up > run_up_limit(want):
            self._given_up.append(want)
            self._no_start = True
            return
        if self._is_damaged(want):
            self._given_up.append(want)
            self._next = next(self._wants, None)
            return
        header = SegmentHeader.of("copy", want, self._index, setup)
        file = SegmentFileWriter(self._folder / f"{want.first:09d}.segment", header)
        self._open.append(_Open(want, file, run_up))
        self._gop.copy_to(file)
        self._next = next(self._wants, None)

    def _is_damaged(self, want: Want) -> bool:
        # Where the decoder does not notice every fault, one that it did notice puts all of the plate under suspicion.
        within = self._index.is_damaged_within(self._gop.start, want.end)
        return within or (self._silent and self._index.is_damaged)

    def _finish(self, reached: int) -> Iterator[Segment]:
        while self._open and self._open[0].want.end is not None and self._open[0].want.end <= reached:
            yield self._open.pop(0).close()

    def _check_end(self, ordinal: int) -> None:
        short = [w.want for w in self._open if w.want.end is not None and w.want.end > ordinal]
        if short or self._next is not None:
            first = short[0].first if short else self._next.first if self._next else 0
            raise InputError(
                f"The plate ends at packet {ordinal}, before the packets of frame {first} and on.",
                where="the plate",
                do="The file changed while it was read, or the timeline is another file's; plan the job again.",
            )


@dataclass
class _Open:
    want: Want
    file: SegmentFileWriter
    run_up: int

    def close(self) -> Segment:
        size = self.file.close()
        want = self.want
        return Segment(self.file.path, want.first, want.last, "copy", self.file.records, self.run_up, size)


class _Spool:
    """Records since the last place where decoding may start; `start` is that packet's ordinal, -1 before the first.

    In memory as long as they are few, then in a file without a name.
    """

    def __init__(self) -> None:
        self.start = -1
        self._records: list[Record] = []
        self._bytes = 0
        self._file: IO[bytes] | None = None
        self._sizes: list[tuple[int, int, int]] = []

    def restart(self, ordinal: int) -> None:
        self.start = ordinal
        self._records.clear()
        self._bytes = 0
        self.close()

    def write(self, record: Record) -> None:
        self._records.append(record)
        self._bytes += len(record[0]) + len(record[1]) + len(record[2])
        if self._bytes > _IN_MEMORY:
            self._spill()

    def _spill(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115
        self._file.seek(0, os.SEEK_END)
        for record in self._records:
            self._file.writelines(record)
        self._sizes += [(len(head), len(data), len(crc)) for head, data, crc in self._records]
        self._records.clear()
        self._bytes = 0

    def copy_to(self, file: SegmentFileWriter) -> None:
        if self._file is not None:
            self._file.seek(0)
            for head, data, crc in self._sizes:
                file.write((self._file.read(head), self._file.read(data), self._file.read(crc)))
        for record in self._records:
            file.write(record)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file = None
        self._sizes.clear()
