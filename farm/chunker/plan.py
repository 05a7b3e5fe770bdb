"""Where to cut: chunks that follow one another without a gap over the timeline, none too short, none too long."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from farm.errors import InputError
from farm.media.timeline import Timeline

SHORTEST_SECONDS = 2.0
"""No chunk is shorter unless the plate is: starting a chunk has a price."""

_STRETCH = 1.5
"""A chunk may last this many times the target before it is cut, so that a scene cut near by can be used."""


@dataclass(frozen=True, slots=True)
class ChunkRange:
    """Frames [first, last) of the timeline."""

    index: int
    first: int
    last: int


def plan_chunks(timeline: Timeline, *, target_seconds: float, scene_cuts: Iterable[int] = ()) -> list[ChunkRange]:
    """Chunks of about `target_seconds`, as alike in length as the frames allow.

    `scene_cuts` are indexes of frames that start a scene: a boundary moves to the cut nearest to it where that keeps
    both neighbours between half and one and a half times the target. Raises InputError for a target that is not
    positive or an empty timeline.
    """
    if target_seconds <= 0:
        raise InputError("A chunk has to last some time.", where="chunk seconds", do="Give a positive number.")
    if len(timeline) == 0:
        raise InputError("The plate has no frames.", where="the timeline", do="Check the file in a player.")
    bounds = _moved_to_cuts(timeline, _even_bounds(timeline, target_seconds), target_seconds, scene_cuts)
    return [ChunkRange(index, int(bounds[index]), int(bounds[index + 1])) for index in range(len(bounds) - 1)]


def _starts(timeline: Timeline) -> NDArray[np.float64]:
    """float64[n + 1]: seconds from the first frame to the start of each frame, and to the end of the last."""
    ticks = np.append(timeline.pts, timeline.end_pts(len(timeline))) - timeline.pts[0]
    seconds: NDArray[np.float64] = ticks.astype(np.float64) * float(timeline.time_base)
    return seconds


def _even_bounds(timeline: Timeline, target: float) -> list[int]:
    """Frame indexes that cut the plate into equal parts of about the target, none shorter than the shortest."""
    starts = _starts(timeline)
    parts = max(1, round(starts[-1] / target))
    if target >= SHORTEST_SECONDS:
        parts = max(1, min(parts, int(starts[-1] / SHORTEST_SECONDS)))
    wanted = starts[-1] * np.arange(1, parts) / parts
    inner = np.searchsorted(starts[:-1], wanted - 1e-9)
    return sorted({0, *(int(i) for i in inner if 0 < i < len(timeline)), len(timeline)})


def _moved_to_cuts(timeline: Timeline, bounds: list[int], target: float, scene_cuts: Iterable[int]) -> list[int]:
    cuts = np.array(sorted({int(cut) for cut in scene_cuts if 0 < cut < len(timeline)}), np.int64)
    if len(cuts) == 0 or len(bounds) < 3:
        return bounds
    starts = _starts(timeline)
    moved = list(bounds)
    for place in range(1, len(bounds) - 1):
        for cut in _by_distance(cuts, starts, bounds[place]):
            before = starts[cut] - starts[moved[place - 1]]
            after = starts[moved[place + 1]] - starts[cut]
            shortest = max(min(SHORTEST_SECONDS, target), target / 2)
            if all(shortest <= side <= _STRETCH * target for side in (before, after)):
                moved[place] = cut
                break
    return moved


def _by_distance(cuts: NDArray[np.int64], starts: NDArray[np.float64], bound: int) -> Iterator[int]:
    distance = np.abs(starts[cuts] - starts[bound])
    yield from (int(cut) for cut in cuts[np.argsort(distance, kind="stable")])
