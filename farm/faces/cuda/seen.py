"""What was seen in a batch of frames, as tables, and which frames have to be looked at in full."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Self

import numpy as np
from numpy.typing import NDArray

from farm.faces.cuda.crop import Letterbox
from farm.faces.cuda.surface import Floats
from farm.faces.landmarks import COUNT
from farm.faces.spans import continued, passes
from farm.faces.track import CUT

_EYES = (33, 133, 362, 263)
_OTHERS = (4, 61, 291)


@dataclass(frozen=True, slots=True)
class Found:
    """The faces of a batch of frames, frame by frame, largest first; n of them.

    frame_of: int32[n], place in the batch. score: float32[n]. box: float64[n, 4] in frame pixels. points:
    float64[n, 478, 3]. presence: float64[n], 0..1. missed: faces beyond the most that one frame may have. small:
    float32[frames, 36, 64], grey copies.
    """

    frame_of: NDArray[np.int32]
    score: Floats
    box: NDArray[np.float64]
    points: NDArray[np.float64]
    presence: NDArray[np.float64]
    missed: int
    small: Floats

    def __len__(self) -> int:
        return len(self.frame_of)

    @property
    def five(self) -> NDArray[np.float64]:
        return five_of(self.points)


def five_of(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Right eye, left eye, nose tip, mouth corners, (n, 5, 2): as `geometry.five_points`, for all faces at once."""
    plane = points[:, :, :2]
    eyes = plane[:, _EYES].reshape(-1, 2, 2, 2).mean(axis=2)
    return np.concatenate([eyes, plane[:, _OTHERS]], axis=1)


@dataclass(frozen=True, slots=True)
class Seen:
    """Detections with rough landmarks; by frame. guessed: bool[n], points on a line between two frames."""

    frame_of: NDArray[np.int32]
    score: Floats
    box: NDArray[np.float64]
    five: NDArray[np.float64]
    points: NDArray[np.float64]
    guessed: NDArray[np.bool_]
    missed: int

    @classmethod
    def read(cls, count: NDArray[np.int32], faces: Floats, places: NDArray[np.int64], box: Letterbox) -> Self:
        """From what `Kernels.faces` tells of the frames at `places`, in the square of `box`."""
        most = faces.shape[1]
        kept = np.minimum(count, most)
        listed = faces[np.arange(most)[None, :] < kept[:, None]]
        corners = _through(box, listed[:, 1:5].reshape(-1, 2, 2).astype(np.float64))
        return cls(
            np.repeat(places, kept).astype(np.int32),
            listed[:, 0],
            np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1),
            _through(box, listed[:, 5:].reshape(-1, 5, 2).astype(np.float64)),
            np.zeros((len(listed), COUNT, 3)),
            np.zeros(len(listed), bool),
            int((count - kept).sum()),
        )

    @classmethod
    def joined(cls, parts: Sequence[Seen]) -> Seen:
        """All of them, by frame."""
        whole = Seen(
            np.concatenate([part.frame_of for part in parts]),
            np.concatenate([part.score for part in parts]),
            np.concatenate([part.box for part in parts]),
            np.concatenate([part.five for part in parts]),
            np.concatenate([part.points for part in parts]),
            np.concatenate([part.guessed for part in parts]),
            0,
        )
        order = np.argsort(whole.frame_of, kind="stable")
        return replace(whole.of(order), missed=sum(part.missed for part in parts))

    def of(self, chosen: NDArray[np.bool_] | NDArray[np.int64]) -> Seen:
        return Seen(
            self.frame_of[chosen],
            self.score[chosen],
            self.box[chosen],
            self.five[chosen],
            self.points[chosen],
            self.guessed[chosen],
            self.missed,
        )

    def with_points(self, points: NDArray[np.float64]) -> Seen:
        return replace(self, points=points)

    def largest_first(self) -> Seen:
        size = (self.box[:, 2:] - self.box[:, :2]).max(axis=1)
        return self.of(np.lexsort((-size, self.frame_of)))

    def surer(self, other: Seen, places: NDArray[np.int64]) -> Seen:
        """With the faces of those frames among `places` of which `other` is surer replaced by its own."""
        better = [p for p in places if other._confidence(p) > self._confidence(p)]
        kept, taken = self.of(~np.isin(self.frame_of, better)), other.of(np.isin(other.frame_of, better))
        return replace(Seen.joined([kept, taken]), missed=self.missed)

    def _confidence(self, place: int) -> float:
        return float(self.score[self.frame_of == place].max(initial=0.0))


def sure(seen: Seen, places: NDArray[np.int64], least: float) -> NDArray[np.bool_]:
    """Which frames at `places` show a face with at least this score."""
    return np.isin(places, seen.frame_of[seen.score >= least])


def key_frames(first: int, count: int, peek: bool, cadence: int) -> NDArray[np.int64]:
    """Places in a batch that are looked at in full: whole multiples of `cadence` in the plate, and both ends."""
    places = np.arange(count + peek)
    chosen = (first + places) % cadence == 0
    chosen[[0, -1]] = True
    return np.flatnonzero(chosen)


def broken_spans(seen: Seen, keys: NDArray[np.int64], small: Floats) -> tuple[Seen, NDArray[np.int64]]:
    """Faces on the lines between neighbouring key frames, and the frames between others, to be looked at in full.

    What makes a span hold is what does by the processor (`farm.faces.spans`), but that a cut is looked for between
    neighbours, and that ends are not asked whether they are sure.
    """
    cut = np.median(np.abs(np.diff(small, axis=0)).reshape(len(small) - 1, -1), axis=1) > CUT
    size = (seen.box[:, 2:] - seen.box[:, :2]).max(axis=1, initial=0.0)
    centre = (seen.box[:, :2] + seen.box[:, 2:]) / 2
    edges = np.searchsorted(seen.frame_of, np.stack([keys, keys + 1]))
    rows, broken = [np.zeros((0, 3), np.int64)], [np.zeros(0, np.int64)]
    shares = [np.zeros(0)]
    for span, (a, b) in enumerate(pairwise(keys)):
        if b - a < 2:
            continue
        between = np.arange(a + 1, b)
        before, after = (slice(edges[0, place], edges[1, place]) for place in (span, span + 1))
        heirs = continued(centre[before], size[before], centre[after], size[after])
        if heirs is None or cut[a:b].any() or any(passes(small[a], small[here], small[b]) for here in between):
            broken.append(between)
            continue
        count = len(heirs)
        pairs = np.column_stack([np.arange(before.start, before.stop), after.start + heirs])
        rows.append(np.column_stack([np.repeat(between, count), np.tile(pairs, (len(between), 1))]))
        shares.append(np.repeat((between - a) / (b - a), count))
    return _lines(seen, np.concatenate(rows), np.concatenate(shares)), np.concatenate(broken)


def _lines(seen: Seen, rows: NDArray[np.int64], shares: NDArray[np.float64]) -> Seen:
    """Faces between two others: `rows` (n, 3) are a place and the two faces, `shares` how far it is to the second."""
    a, b = seen.of(rows[:, 1]), seen.of(rows[:, 2])

    def between(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(one + (other - one) * shares.reshape(-1, *(1,) * (one.ndim - 1)))

    return Seen(
        rows[:, 0].astype(np.int32),
        np.minimum(a.score, b.score),
        between(a.box, b.box),
        between(a.five, b.five),
        between(a.points, b.points),
        np.ones(len(rows), bool),
        0,
    )


def _through(box: Letterbox, points: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(points @ box.to_frame[:, :2].T + box.to_frame[:, 2])
