"""Where to cut a plate into chunks: ranges of frames, 10–30 s long, as the timeline becomes known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import chain

from pydantic import BaseModel, ConfigDict

from farm.errors import InputError
from farm.media.timeline import Timeline


class ChunkRange(BaseModel):
    """Frames [first, last) of the timeline; `index` counts chunks from 0."""

    model_config = ConfigDict(frozen=True)

    index: int
    first: int
    last: int

    def __len__(self) -> int:
        return self.last - self.first


class ChunkSizes(BaseModel):
    """How long chunks are, in seconds: about `target`, between `shortest` and `longest` where the plate allows.

    A rest that is under `least` joins the chunk before it, which may then exceed `longest` by that much.
    """

    model_config = ConfigDict(frozen=True)

    target: float = 20.0
    shortest: float = 10.0
    longest: float = 30.0
    least: float = 2.0

    @classmethod
    def around(cls, target: float) -> ChunkSizes:
        """The sizes for another target, in the same proportions; `least` is 2 s or half the target if that is less.

        Raises InputError when it is not a positive number.
        """
        if not 0 < target < float("inf"):
            raise InputError(
                f"A chunk cannot last {target} seconds.", where="chunk seconds", do="Give a positive number."
            )
        return cls(target=target, shortest=target / 2, longest=target * 1.5, least=min(2.0, target / 2))


def plan_chunks(
    timeline: Timeline, *, target_seconds: float = 20.0, scene_cuts: Sequence[int] = ()
) -> list[ChunkRange]:
    """Chunks that cover every frame of the timeline once, in order.

    `scene_cuts` are indexes of frames that begin a scene: a boundary within reach is put there. Without one it is put
    where the chunk has its target length, at a key frame if there is one close by. Raises InputError for an empty
    timeline.
    """
    if len(timeline) == 0:
        raise InputError("There is no frame to cut.", where="the timeline", do="Give a plate with pictures.")
    cuts = set(scene_cuts)
    planner = ChunkPlanner(
        timeline.time_base,
        ChunkSizes.around(target_seconds),
        cuts_within=lambda low, high: cuts.intersection(range(low, high)),
    )
    frames = zip(timeline.pts.tolist(), timeline.key.tolist(), strict=True)
    return list(chain.from_iterable(planner.add(pts, key) for pts, key in frames)) + list(
        planner.finish(timeline.end_pts(len(timeline)))
    )


CutsWithin = Callable[[int, int], Iterable[int]]


class ChunkPlanner:
    """Plans while frames are still being found: a chunk is handed out once enough is known of what follows it."""

    def __init__(self, time_base: Fraction, sizes: ChunkSizes, *, cuts_within: CutsWithin | None = None) -> None:
        """`cuts_within` (low, high) gives the frames in [low, high) that begin a scene; it is asked once a boundary."""
        self._base = float(time_base)
        self._sizes = sizes
        self._cuts_within = cuts_within
        self._cuts: frozenset[int] = frozenset()
        self._asked = -1
        self._pts: list[int] = []
        self._keys: set[int] = set()
        self._first = 0
        self._index = 0

    def add(self, pts: int, key: bool) -> Iterator[ChunkRange]:
        """The next frame in presentation order; yields a chunk when one is decided."""
        if key:
            self._keys.add(len(self._pts))
        self._pts.append(pts)
        sizes = self._sizes
        last = len(self._pts) - 1
        if self._seconds(self._first, last) >= sizes.longest + sizes.least:
            boundary = self._boundary()
            # What is known to follow must be able to stand alone, should it be all.
            if boundary < last and self._seconds(boundary, last) >= sizes.least:
                yield self._close(boundary)

    def finish(self, end_pts: int) -> Iterator[ChunkRange]:
        """No more frames; `end_pts` is when the last one leaves the screen. Yields what is left."""
        sizes = self._sizes
        while self._first < len(self._pts):
            left = (end_pts - self._pts[self._first]) * self._base
            if left <= sizes.longest:
                yield self._close(len(self._pts))
                continue
            boundary = self._boundary(end_pts)
            rest = (end_pts - self._pts[boundary]) * self._base if boundary < len(self._pts) else 0.0
            yield self._close(boundary if rest >= sizes.least else len(self._pts))

    def _close(self, boundary: int) -> ChunkRange:
        chunk = ChunkRange(index=self._index, first=self._first, last=boundary)
        self._index += 1
        self._first = boundary
        return chunk

    def _seconds(self, first: int, last: int) -> float:
        return (self._pts[last] - self._pts[first]) * self._base

    def _boundary(self, end_pts: int | None = None) -> int:
        """The frame at which the current chunk should end: a scene cut, else a near key frame, else the target.

        With the plate's `end_pts` known, what is left behind the boundary should be able to stand alone.
        """
        sizes = self._sizes
        reach = [
            frame
            for frame in range(self._first + 1, len(self._pts))
            if sizes.shortest <= self._seconds(self._first, frame) <= sizes.longest
        ]
        if end_pts is not None:
            roomy = [f for f in reach if (end_pts - self._pts[f]) * self._base >= sizes.shortest]
            reach = roomy or reach
        if not reach:
            # One frame that stays longer than a whole chunk (a slide, a freeze) is a chunk with what comes before it.
            return next(
                (f for f in range(self._first + 1, len(self._pts)) if self._seconds(self._first, f) >= sizes.shortest),
                len(self._pts),
            )

        def off_target(frame: int) -> float:
            return abs(self._seconds(self._first, frame) - sizes.target)

        self._ask(reach[0], reach[-1] + 1)
        cuts = [frame for frame in reach if frame in self._cuts]
        if cuts:
            return min(cuts, key=off_target)
        close_keys = [f for f in reach if f in self._keys and off_target(f) <= sizes.target / 4]
        return min(close_keys or reach, key=off_target)

    def _ask(self, low: int, high: int) -> None:
        """Where scenes begin, once for each chunk's end."""
        if self._cuts_within is not None and self._asked != self._first:
            self._cuts, self._asked = frozenset(self._cuts_within(low, high)), self._first
