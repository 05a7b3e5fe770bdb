"""Segments from a packet log: each a run of packets, copied from the plate as soon as the scan has passed its end."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from farm.errors import InputError
from farm.media import limits
from farm.media.frameindex import FrameIndex, Want
from farm.media.packetlog import PacketLog
from farm.media.segmentfile import Segment, SegmentFileWriter, SegmentHeader

MAX_RUN_UP = 600
"""Packets that may be decoded and dropped before a chunk's first frame; a longer run-up costs more than coding anew."""
_WORTH_A_THREAD = 16 * 1024
"""Bytes a packet from which on copying is work for a second core; for small ones the hand-over costs more."""


def run_up_limit(want: Want) -> int:
    """How many packets may come before a chunk's first wanted one."""
    return max(MAX_RUN_UP, 3 * (want.high - want.low))


class LogCutter:
    """Makes the segments that `wants` name, in order, of the plate's own bytes.

    Where packets are large, from the second segment on one is copied beside the scan, which goes on whenever the next
    want is asked for. Wants that cannot be met by copying are in `remaining` afterwards.
    """

    def __init__(
        self, path: Path, folder: Path, index: FrameIndex, wants: Iterator[Want], log: PacketLog, codec: str
    ) -> None:
        self._path, self._folder, self._index, self._wants, self._log = path, folder, index, wants, log
        self._silent = codec in limits.SILENT
        self._given_up: list[Want] = []
        self._start = -1
        self._next_start = 0

    def run(self) -> Iterator[Segment]:
        """Each segment when it is complete. InputError, PlanMismatchError (`PacketLog.copy`), OSError."""
        copying: deque[Future[Segment]] = deque()
        descriptor = os.open(self._path, os.O_RDONLY)
        pool = ThreadPoolExecutor(1, "segment-copy")
        try:
            beside = False
            for want in self._wants:
                if not self._is_within_reach(want):
                    self._given_up.append(want)
                    break
                if self._is_damaged(want):
                    self._given_up.append(want)
                    continue
                if beside:
                    copying.append(pool.submit(self._copy, descriptor, want, self._start))
                    while len(copying) > 1 or (copying and copying[0].done()):
                        yield copying.popleft().result()
                else:
                    segment = self._copy(descriptor, want, self._start)
                    beside = segment.size > _WORTH_A_THREAD * segment.packets
                    yield segment
            while copying:
                yield copying.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)
            for future in copying:
                if not future.cancelled() and future.exception() is None:
                    future.result().path.unlink(missing_ok=True)
            os.close(descriptor)

    def remaining(self) -> Iterator[Want]:
        """Wants that must be met by coding anew."""
        yield from self._given_up
        yield from self._wants

    def _is_within_reach(self, want: Want) -> bool:
        """Go on to the last place from which `want` can be decoded; whether that is near enough."""
        starts = self._log.starts
        while self._next_start < len(starts):
            start, pts = starts[self._next_start]
            if start > want.begin or not self._index.serves(want, start, pts):
                break
            self._start = start
            self._next_start += 1
        return self._start >= 0 and want.begin - self._start <= run_up_limit(want)

    def _is_damaged(self, want: Want) -> bool:
        # Where the decoder does not notice every fault, one that it did notice puts all of the plate under suspicion.
        within = self._index.is_damaged_within(self._start, want.end)
        return within or (self._silent and self._index.is_damaged)

    def _copy(self, descriptor: int, want: Want, start: int) -> Segment:
        last = len(self._log) - 1 if want.end is None else want.end
        if last >= len(self._log) or self._log.setup is None:
            raise InputError(
                f"The plate ends at packet {len(self._log) - 1}, before the packets of frame {want.first} and on.",
                where="the plate",
                do="The file changed while it was read; plan the job again.",
            )
        header = SegmentHeader.of("copy", want, self._index, self._log.setup)
        with SegmentFileWriter(self._folder / f"{want.first:09d}.segment", header) as file:
            self._log.copy(descriptor, file, start, last)
        return Segment(file.path, want.first, want.last, "copy", file.records, want.begin - start, file.size)
