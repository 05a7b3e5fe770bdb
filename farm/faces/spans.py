"""Frames seen by spans: every fourth in full, those between from a straight line between the two.

A span holds where no cut lies in it, nothing comes and goes in it, and each face of one end is, near the same place and
size, one of the other's, both ends being sure of what they saw. In a span that does not hold, and at the plate's ends,
every frame is looked at in full. So what is said of a frame depends on the frames from the multiple of `CADENCE` before
it to the one after it, never on where a chunk begins.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

from farm.faces.track import is_cut
from farm.faces.views import Foresight, Foretold, FrameView
from farm.media.frame import Frame

CADENCE = 4
"""One frame in so many is looked at in full."""
_NEAR, _ALIKE = 0.5, 0.3
"""Share of a face's size by which it may move in a span, and the logarithm by which it may grow."""
_PASSING, _PLACE = 0.1, (3, 3)
"""Luma 0..1 by which a place of the small grey copy, in pixels, differs from both ends where something passes."""


class Looks(Protocol):
    """How frames are looked at: in full, or where the line between two others foretells the faces."""

    def full(self, frame: Frame) -> FrameView: ...
    def between(self, frame: Frame, foretold: Foresight) -> FrameView: ...


def foretold(before: FrameView, after: FrameView, here: FrameView) -> list[Foretold] | None:
    """The faces of `here` on the lines between those of two frames around it; None where it must be looked at."""
    if before.unsure or after.unsure or is_cut(before, here) or is_cut(here, after):
        return None
    if passes(before.small, here.small, after.small):
        return None
    heirs = continued(*_places(before), *_places(after))
    if heirs is None:
        return None
    share = (here.index - before.index) / (after.index - before.index)
    pairs = [(face, after.faces[heir]) for face, heir in zip(before.faces, heirs, strict=True)]
    return [Foretold(a.points + (b.points - a.points) * share, min(a.score, b.score)) for a, b in pairs]


def _places(view: FrameView) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    faces = view.faces
    return np.array([face.centre for face in faces]).reshape(-1, 2), np.array([face.size for face in faces])


def passes(before: NDArray[np.float32], here: NDArray[np.float32], after: NDArray[np.float32]) -> bool:
    """Whether somewhere in a small grey copy (36, 64) there is what neither end of its span shows."""
    apart = np.minimum(np.abs(here - before), np.abs(here - after))
    return bool(cv2.boxFilter(apart, -1, _PLACE).max() > _PASSING)


def continued(
    centre: NDArray[np.float64],
    size: NDArray[np.float64],
    later_centre: NDArray[np.float64],
    later_size: NDArray[np.float64],
) -> NDArray[np.int64] | None:
    """For each face at `centre` (n, 2) the place of the one that it becomes among those at `later_centre`.

    None where they are not surely the same faces: another number of them, or one without a counterpart or with two.
    """
    if len(size) != len(later_size):
        return None
    if not len(size):
        return np.zeros(0, np.int64)
    apart = np.hypot(*(centre[:, None] - later_centre[None]).transpose(2, 0, 1))
    near = (apart < _NEAR * size[:, None]) & (np.abs(np.log(later_size[None] / size[:, None])) < _ALIKE)
    alone = (near.sum(axis=0) == 1).all() and (near.sum(axis=1) == 1).all()
    return near.argmax(axis=1) if alone else None


@dataclass
class _Span:
    """A frame that is looked at in full, and those behind it up to the next such one."""

    key: Future[FrameView] | None
    index: int
    behind: list[Frame] = field(default_factory=list)


class Spans:
    """Looks at frames [low, high) of a plate with a pool of threads, in order and in bounded memory."""

    def __init__(self, pool: ThreadPoolExecutor, looks: Looks, low: int, high: int, *, depth: int) -> None:
        self._pool, self._looks = pool, looks
        self._low, self._high, self._depth = low, high, depth
        self._begun: deque[Future[FrameView]] = deque()

    def seen(self, frames: Iterable[Frame]) -> Iterator[FrameView]:
        """The views of `frames` that lie in [low, high); frames beyond only serve as ends of spans."""
        waiting: deque[_Span] = deque([_Span(None, -1)])
        try:
            for frame in frames:
                if frame.index % CADENCE == 0:
                    waiting.append(_Span(self._pool.submit(self._looks.full, frame), frame.index))
                    # A span is begun when the one behind it has its end, so that nobody waits for an end.
                    if len(waiting) > 2:
                        self._begin(waiting.popleft(), waiting[0].key)
                else:
                    waiting[-1].behind.append(frame)
                if len(self._begun) > self._depth:
                    yield self._begun.popleft().result()
            while waiting:
                self._begin(waiting.popleft(), waiting[0].key if waiting else None)
            while self._begun:
                yield self._begun.popleft().result()
        finally:
            for future in self._begun:
                future.cancel()

    def _begin(self, span: _Span, end: Future[FrameView] | None) -> None:
        if span.key is not None and self._low <= span.index < self._high:
            self._begun.append(span.key)
        for frame in span.behind:
            if self._low <= frame.index < self._high:
                self._begun.append(self._look(frame, span.key, end))

    def _look(self, frame: Frame, start: Future[FrameView] | None, end: Future[FrameView] | None) -> Future[FrameView]:
        if start is None or end is None:
            return self._pool.submit(self._looks.full, frame)

        def ends(here: FrameView) -> list[Foretold] | None:
            return foretold(start.result(), end.result(), here)

        return self._pool.submit(self._looks.between, frame, ends)
