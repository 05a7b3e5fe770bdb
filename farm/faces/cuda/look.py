"""Faces and their landmarks in a batch of frames: few detector passes, landmark passes over full batches, few waits.

The detector and the first landmark pass look at every `CADENCE`-th frame of the plate. Where the span between two of
them holds (`farm.faces.spans`), the frames between start their landmarks from points in a straight line between the
two; all other frames are looked at in full. So what is said of a frame depends on the frames from the multiple of
`CADENCE` before it to the one after it, never on the batch that it is in.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from farm.faces.cuda.backend import Array, Kernels, Later
from farm.faces.cuda.crop import Letterbox, Packing, crop_plan
from farm.faces.cuda.places import first_crops, moved_far, next_crops, placed
from farm.faces.cuda.seen import Found, Seen, broken_spans, key_frames, sure
from farm.faces.cuda.surface import Floats, Surface
from farm.faces.cuda.yunet import FIELDS, HEADS, MOST
from farm.faces.detect import SURE_SCORE
from farm.faces.landmarks import COUNT
from farm.faces.spans import CADENCE
from farm.faces.views import MIN_PRESENCE, SMALL
from farm.inference.buckets import Buckets
from farm.inference.spec import ModelSpec

_LEAST_SCORE = 0.6
_GREY_SIDE = 64
_GREY = Packing(
    np.array([1, 1, 1, 0, 0, 0], np.float32), np.array([1, 1, 1, 0, 0, 0], np.float32), swapped=False, interleaved=True
)
_LUMA = np.array([0.299, 0.587, 0.114], np.float32)


class Looker:
    """The detector and the landmarker over batches of frames of one surface.

    Parameters
    ----------
    detector, landmarker: networks with room for as many frames, and for as many faces, as are to be run at once; their
        specs say the tensors. rough: the landmarker for the first pass, which only places the crop of the second; half
        precision is enough there. None uses the same for both. wide: the detector for pictures as wide as its own but
        not as high, for frames that fit; None uses its own for all. cadence: 1 looks at every frame in full.
    """

    def __init__(
        self,
        kernels: Kernels,
        surface: Surface,
        detector: tuple[Buckets, ModelSpec],
        landmarker: tuple[Buckets, ModelSpec],
        *,
        rough: Buckets | None = None,
        wide: Buckets | None = None,
        cadence: int = CADENCE,
    ) -> None:
        self._kernels = kernels
        self._surface = surface
        self._cadence = cadence
        self._detector, spec = detector
        self._seen = spec.inputs[0]
        side = int(self._seen.shape[2])
        self._boxes = [Letterbox.of(surface, side, quarters) for quarters in range(4)]
        self._wide = wide
        self._square = Packing.of(self._seen)
        self._landmarker, spec = landmarker
        self._level = spec.inputs[0]
        self._crop_side = int(self._level.shape[1])
        self._packing = Packing.of(self._level)
        self._rough = rough or self._landmarker
        self._points, self._logits = (output.in_graph for output in spec.outputs[:2])
        self._grey_box = Letterbox.stretched(surface, _GREY_SIDE, SMALL)
        self._grey: Array | None = None
        self.passes = 0
        """Frames that the detector was run on."""

    def look(self, frames: Array, count: int, *, first: int = 0, peek: bool = False) -> Found:
        """Of the first `count` of `frames` (batch, rows, width); `first` is the plate's index of frame 0.

        peek: one frame more lies behind them, the plate's next, which the last ones may need to look at.
        """
        grey = self._small(frames, count + peek)
        keys = key_frames(first, count, peek, self._cadence)
        seen = self._detected(frames, keys)
        small = np.asarray(grey()[:, : SMALL[1], : SMALL[0]] @ _LUMA, np.float32)
        if len(keys) < count + peek:
            line, broken = broken_spans(seen, keys, small)
            seen = Seen.joined([seen, line, self._detected(frames, broken)])
        seen = seen.of(seen.frame_of < count)
        found = self._refined(frames, seen, small[:count])
        weak = np.unique(found.frame_of[seen.guessed & (found.presence < MIN_PRESENCE)]).astype(np.int64)
        if len(weak):
            again = self._detected(frames, weak)
            seen = Seen.joined([seen.of(~np.isin(seen.frame_of, weak)), again])
            found = self._refined(frames, seen, small[:count])
        return found

    def _refined(self, frames: Array, seen: Seen, small: Floats) -> Found:
        crops = next_crops(seen.points, self._crop_side)
        points, presence = self._landmarks(self._landmarker, frames, seen.frame_of, crops)
        # A face that ran ahead of its straight line is looked at again where it is.
        off = np.flatnonzero(seen.guessed & moved_far(points, crops, self._crop_side))
        if len(off):
            crops = next_crops(points[off], self._crop_side)
            points[off], presence[off] = self._landmarks(self._landmarker, frames, seen.frame_of[off], crops)
        return Found(seen.frame_of, seen.score, seen.box, points, presence, seen.missed, small)

    def _small(self, frames: Array, count: int) -> Later:
        """Copies (count, 64, 64, 3), of which SMALL is filled, for the grey ones in which cuts are looked for."""
        if self._grey is None or len(self._grey) < len(frames):
            self._grey = self._kernels.empty((len(frames), _GREY_SIDE, _GREY_SIDE, 3), np.float32)
        plan = self._grey_box.plan(np.arange(count))
        filled = self._grey_box.filled
        self._kernels.crop(frames, self._surface, plan, _GREY, self._grey, side=_GREY_SIDE, filled=filled)
        return self._kernels.later(self._grey[:count])

    def _detected(self, frames: Array, places: NDArray[np.int64]) -> Seen:
        """Faces of the frames at `places`, largest first, with their rough landmarks.

        Frames in which nothing certain is seen upright are looked at again turned by quarters, as the CPU path does.
        """
        best = self._pass(frames, places, 0)
        unsure = places[~sure(best, places, SURE_SCORE)]
        for quarters in (1, 3, 2):
            if len(unsure):
                best = best.surer(self._pass(frames, unsure, quarters), unsure)
        best = best.largest_first()
        crops = first_crops(best.box, best.five, self._crop_side)
        points, _ = self._landmarks(self._rough, frames, best.frame_of, crops)
        return best.with_points(points)

    def _pass(self, frames: Array, places: NDArray[np.int64], quarters: int) -> Seen:
        box = self._boxes[quarters]
        detector = self._detector
        if self._wide is not None and box.filled[1] <= self._tall(self._wide):
            detector = self._wide
        arrays, room, tall = detector.arrays, detector.capacity, self._tall(detector)
        target = arrays[self._seen.in_graph]
        found, faces = [np.zeros(0, np.int32)], [np.zeros((0, MOST, FIELDS), np.float32)]
        for start in range(0, len(places), room):
            some = places[start : start + room]
            self._kernels.crop(
                frames, self._surface, box.plan(some), self._square, target, side=box.side, tall=tall, filled=box.filled
            )
            detector.run(len(some))
            self.passes += len(some)
            count, kept = self._kernels.faces([arrays[name] for name in HEADS], len(some), _LEAST_SCORE, box.side)
            found.append(count)
            faces.append(kept)
        return Seen.read(np.concatenate(found), np.concatenate(faces), places, box)

    def _tall(self, detector: Buckets) -> int:
        """Rows of the picture that it is given."""
        return int(detector.arrays[self._seen.in_graph].shape[2])

    def _landmarks(
        self, network: Buckets, frames: Array, frame_of: NDArray[np.int32], to_frame: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Points (n, 478, 3) in frame pixels and presence (n,)."""
        room, arrays = network.capacity, network.arrays
        asked: list[tuple[Later, Later]] = []
        for start in range(0, len(frame_of), room):
            some = np.s_[start : start + room]
            plan = crop_plan(frame_of[some], to_frame[some])
            target = arrays[self._level.in_graph]
            self._kernels.crop(frames, self._surface, plan, self._packing, target, side=self._crop_side)
            network.run(len(plan))
            asked.append(
                (
                    self._kernels.later(arrays[self._points][: len(plan)]),
                    self._kernels.later(arrays[self._logits][: len(plan)]),
                )
            )
        made, said = [np.zeros((0, COUNT, 3))], [np.zeros(0)]
        for points, logits in asked:
            made.append(points().astype(np.float64).reshape(-1, COUNT, 3))
            said.append(logits().astype(np.float64).reshape(len(made[-1]), -1)[:, 0])
        return placed(np.concatenate(made), to_frame), 1 / (1 + np.exp(-np.concatenate(said)))
