"""Plan and cut at once: segments come out while the plate is still being scanned."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from farm.chunker.plan import ChunkPlanner, ChunkRange, ChunkSizes
from farm.chunker.scenes import SceneFinder
from farm.errors import InputError, PlanMismatchError
from farm.media.facts import PlateFacts
from farm.media.frameindex import FrameIndex, Want
from farm.media.fulldecode import ScannedFrame, decode_timeline, timeline_of
from farm.media.packetlog import PacketLog, keeps_packets_whole
from farm.media.scan import PacketsNotEnoughError, scan_frames
from farm.media.segment import cut_wants
from farm.media.segmentfile import Segment
from farm.media.timeline import Timeline


@dataclass(frozen=True, slots=True)
class CutChunk:
    """A chunk that can be rendered: its frames and the file that holds their packets."""

    range: ChunkRange
    segment: Segment


class PlateCutter:
    """Cuts one plate.

    One cursor scans packets and plans, and what it has passed is copied, so the first chunk is there long before the
    scan ends, and nothing but lists of frames and packets grows with the plate. Where a container does not keep packets
    in one piece, a second cursor follows and copies. Where the packets do not say which frames there are, the plate is
    decoded instead, and the chunks handed out so far are checked against that.
    `at_scenes` ends chunks where scenes begin, where one begins within reach: for work that remembers from frame to
    frame. `watch` is told how many frames were found so far, also while no chunk comes out, and `coding`
    the number of each one that is coded anew; both may raise to end it.
    """

    def __init__(
        self,
        path: Path,
        facts: PlateFacts,
        folder: Path,
        *,
        target_seconds: float = 20.0,
        at_scenes: bool = False,
        before: int = 0,
        after: int = 0,
        by_decoding: bool = False,
        watch: Callable[[int], None] = lambda frames: None,
        coding: Callable[[int], None] = lambda frame: None,
    ) -> None:
        self._path = path
        self._watch, self._coding = watch, coding
        self._facts = facts
        self._folder = folder
        self._context = (before, after)
        self._by_decoding = by_decoding
        self._log = PacketLog(path) if keeps_packets_whole(facts) and not by_decoding else None
        self._frames: list[ScannedFrame] = []
        self._scenes = SceneFinder(path, facts, self._frames)
        self._planner = ChunkPlanner(
            facts.video.time_base,
            ChunkSizes.around(target_seconds),
            cuts_within=self._scenes.within if at_scenes else None,
        )
        self._index = FrameIndex()
        self._decoded: Timeline | None = None
        self._ranges: dict[int, ChunkRange] = {}

    def run(self) -> Iterator[CutChunk]:
        """Each chunk as soon as its segment is complete; those that had to be coded anew may come late.

        Raises InputError (no frames, an unreadable plate), PlanMismatchError (chunks that were handed out turn out to
        be wrong: plan again with `by_decoding`), OSError (disk).
        """
        try:
            segments = cut_wants(
                self._path, self._facts, self._index, self._wants(), self._folder, log=self._log, watch=self._coding
            )
            for segment in segments:
                yield CutChunk(self._ranges.pop(segment.first), segment)
        finally:
            self._scenes.close()

    @property
    def complete(self) -> bool:
        """Whether all frames are known."""
        return self._index.complete

    def timeline(self) -> Timeline:
        """The frames known so far; the whole plate's once `complete`. Raises InputError while there are none."""
        if self._decoded is not None and self._index.complete:
            return self._decoded
        return timeline_of(self._frames, self._facts)

    @property
    def known(self) -> int:
        """How many frames are known so far."""
        return len(self._frames)

    def part(self, low: int, high: int) -> Timeline:
        """Frames [low, high) of the timeline at their own indexes (`Timeline.part`), without building all of it."""
        if self._decoded is not None:
            return self._decoded.part(low, high)
        return timeline_of(self._frames[low:high], self._facts).placed_at(low)

    def _wants(self) -> Iterator[Want]:
        """What each chunk needs, once enough of the frames behind it are known."""
        before, after = self._context
        waiting: list[ChunkRange] = []
        for chunk in self._planned():
            if chunk is not None:
                waiting.append(chunk)
            while waiting and self._index.is_ready_for(waiting[0].last, after):
                chunk = waiting.pop(0)
                self._ranges[chunk.first] = chunk
                yield self._index.want(chunk.first, chunk.last, before, after)

    def _planned(self) -> Iterator[ChunkRange | None]:
        """Chunks as they are decided, and None for every frame that is found in between."""
        for frame in self._found():
            self._frames.append(frame)
            self._watch(len(self._frames))
            self._index.extend([(frame.packet, frame.pts)])
            yield from self._planner.add(frame.pts, frame.key)
            yield None
        if not self._frames:
            raise InputError("Not one frame can be decoded.", where="the plate's picture", do="Check it in a player.")
        if self._decoded is not None:
            self._index.know_damage(self._decoded)
        self._index.complete = True
        timeline = self.timeline()
        yield from self._planner.finish(timeline.end_pts(len(timeline)))
        yield None

    def _found(self) -> Iterator[ScannedFrame]:
        if not self._by_decoding:
            try:
                yield from scan_frames(self._path, self._facts, self._log)
                return
            except PacketsNotEnoughError:
                if self._log is not None:
                    self._log.read_rest(self._facts)
        self._decoded = decode_timeline(self._path, self._facts, self._watch)
        self._index.know_damage(self._decoded)
        columns = (self._decoded.pts, self._decoded.duration, self._decoded.key, self._decoded.packet)
        decoded = [ScannedFrame(*row) for row in zip(*(c.tolist() for c in columns), strict=True)]
        for known, frame in zip(self._frames, decoded, strict=False):
            if (known.pts, known.packet) != (frame.pts, frame.packet):
                raise PlanMismatchError(
                    f"By its packets a frame is at tick {known.pts}, by decoding at {frame.pts}.",
                    where="the plate's picture",
                    do="Plan again by decoding the whole plate.",
                )
        yield from decoded[len(self._frames) :]
