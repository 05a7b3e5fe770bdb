"""Faces and their landmarks in a batch of frames: one detector pass, two landmark passes, three short waits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from farm.faces.cuda.backend import Array, Kernels
from farm.faces.cuda.crop import Letterbox, Packing, crop_plan
from farm.faces.cuda.surface import Floats, Surface
from farm.faces.cuda.yunet import HEADS, MOST
from farm.faces.landmarks import COUNT
from farm.faces.mesh import VERTICES
from farm.inference.buckets import Buckets
from farm.inference.spec import ModelSpec

_MARGIN = 1.5
_LEAST_SCORE = 0.6
_EYES = (33, 133, 362, 263)
_OTHERS = (4, 61, 291)


@dataclass(frozen=True, slots=True)
class Found:
    """The faces of a batch of frames, frame by frame, best first; n of them.

    frame_of: int32[n], place in the batch. score: float32[n]. box: float64[n, 4] in frame pixels. points:
    float64[n, 478, 3]. presence: float64[n], 0..1. missed: faces beyond the most that one frame may have.
    """

    frame_of: NDArray[np.int32]
    score: Floats
    box: NDArray[np.float64]
    points: NDArray[np.float64]
    presence: NDArray[np.float64]
    missed: int

    def __len__(self) -> int:
        return len(self.frame_of)

    @property
    def five(self) -> NDArray[np.float64]:
        """Right eye, left eye, nose tip, mouth corners, (n, 5, 2): as `geometry.five_points`, for all faces at once."""
        plane = self.points[:, :, :2]
        eyes = plane[:, _EYES].reshape(-1, 2, 2, 2).mean(axis=2)
        return np.concatenate([eyes, plane[:, _OTHERS]], axis=1)


class Looker:
    """The detector and the landmarker over batches of frames of one surface.

    Parameters
    ----------
    detector, landmarker: networks with room for a batch of frames, and for as many faces as are to be run at once;
        their specs say the tensors. rough: the landmarker for the first pass, which only places the crop of the
        second; half precision is enough there. None uses the same for both.
    """

    def __init__(
        self,
        kernels: Kernels,
        surface: Surface,
        detector: tuple[Buckets, ModelSpec],
        landmarker: tuple[Buckets, ModelSpec],
        *,
        rough: Buckets | None = None,
        least_score: float = _LEAST_SCORE,
    ) -> None:
        self._kernels = kernels
        self._surface = surface
        self._least = least_score
        self._detector, spec = detector
        self._seen = spec.inputs[0]
        self._letterbox = Letterbox.of(surface, int(self._seen.shape[2]))
        self._square = Packing.of(self._seen)
        self._landmarker, spec = landmarker
        self._level = spec.inputs[0]
        self._crop_side = int(self._level.shape[1])
        self._packing = Packing.of(self._level)
        self._rough = rough or self._landmarker
        self._points, self._logits = (output.in_graph for output in spec.outputs[:2])

    def look(self, frames: Array, count: int) -> Found:
        """The first `count` of `frames` (batch, rows, width); at most the detector's capacity."""
        found, faces = self._detected(frames, count)
        kept = np.minimum(found, MOST)
        frame_of = np.repeat(np.arange(count, dtype=np.int32), kept)
        listed = np.concatenate([faces[i, :n] for i, n in enumerate(kept)]) if len(frame_of) else faces[0, :0]
        factor = np.array(self._letterbox.factor)
        box = listed[:, 1:5].astype(np.float64) * np.tile(factor, 2)
        five = listed[:, 5:].reshape(-1, 5, 2).astype(np.float64) * factor
        rough, _ = self._landmarks(self._rough, frames, frame_of, first_crops(box, five, self._crop_side))
        points, presence = self._landmarks(self._landmarker, frames, frame_of, next_crops(rough, self._crop_side))
        return Found(frame_of, listed[:, 0], box, points, presence, int((found - kept).sum()))

    def _detected(self, frames: Array, count: int) -> tuple[NDArray[np.int32], Floats]:
        box, arrays = self._letterbox, self._detector.arrays
        target = arrays[self._seen.in_graph]
        self._kernels.crop(
            frames, self._surface, box.plan(count), self._square, target, side=box.side, filled=box.filled
        )
        self._detector.run(count)
        return self._kernels.faces([arrays[name] for name in HEADS], count, self._least)

    def _landmarks(
        self, network: Buckets, frames: Array, frame_of: NDArray[np.int32], to_frame: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Points (n, 478, 3) in frame pixels and presence (n,)."""
        room, arrays = network.capacity, network.arrays
        points, logits = [np.zeros((0, COUNT, 3))], [np.zeros(0)]
        for start in range(0, len(frame_of), room):
            some = np.s_[start : start + room]
            plan = crop_plan(frame_of[some], to_frame[some])
            target = arrays[self._level.in_graph]
            self._kernels.crop(frames, self._surface, plan, self._packing, target, side=self._crop_side)
            network.run(len(plan))
            made = self._kernels.download(arrays[self._points][: len(plan)]).reshape(len(plan), COUNT, 3)
            points.append(_placed(made.astype(np.float64), to_frame[some]))
            logits.append(self._kernels.download(arrays[self._logits][: len(plan)]).reshape(len(plan), -1)[:, 0])
        return np.concatenate(points), 1 / (1 + np.exp(-np.concatenate(logits).astype(np.float64)))


def first_crops(box: NDArray[np.float64], five: NDArray[np.float64], side: int) -> NDArray[np.float64]:
    """Level crops around detections, (n, 2, 3) from crop to frame: what `Landmarker` does for one."""
    eyes = five[:, 1] - five[:, 0]
    size = (box[:, 2:] - box[:, :2]).max(axis=1)
    return _around((box[:, :2] + box[:, 2:]) / 2, size * _MARGIN, np.arctan2(eyes[:, 1], eyes[:, 0]), side)


def next_crops(points: NDArray[np.float64], side: int) -> NDArray[np.float64]:
    """Level crops around landmarks (n, 478, 3), from crop to frame: `landmarks.crop_for` for many."""
    plane = points[:, :VERTICES, :2]
    eyes = (plane[:, 263] + plane[:, 362]) - (plane[:, 33] + plane[:, 133])
    angle = np.arctan2(eyes[:, 1], eyes[:, 0])
    cos, sin = np.cos(angle), np.sin(angle)
    level = np.stack([np.stack([cos, sin], axis=1), np.stack([-sin, cos], axis=1)], axis=1)
    turned = plane @ level.transpose(0, 2, 1)
    low, high = turned.min(axis=1), turned.max(axis=1)
    centre = ((low + high)[:, None] / 2 @ level)[:, 0]
    return _around(centre, (high - low).max(axis=1) * _MARGIN, angle, side)


def similarities(source: NDArray[np.float64], targets: NDArray[np.float64]) -> NDArray[np.float64]:
    """The least-squares similarities (n, 2, 3) that bring points `source` (k, 2) to each of `targets` (n, k, 2).

    In the plane a similarity is one complex factor and one shift, so that the fit has a closed form.
    """
    s = source[:, 0] + 1j * source[:, 1]
    t = targets[..., 0] + 1j * targets[..., 1]
    s_mean, t_mean = s.mean(), t.mean(axis=1, keepdims=True)
    factor = ((t - t_mean) * np.conj(s - s_mean)).sum(axis=1) / (np.abs(s - s_mean) ** 2).sum()
    shift = t_mean[:, 0] - factor * s_mean
    rows = [[factor.real, -factor.imag, shift.real], [factor.imag, factor.real, shift.imag]]
    return np.asarray(np.array(rows).transpose(2, 0, 1))


def _around(
    centre: NDArray[np.float64], extent: NDArray[np.float64], angle: NDArray[np.float64], side: int
) -> NDArray[np.float64]:
    """The inverse of `geometry.crop_around`, for many."""
    cos, sin = np.cos(angle) * extent / side, np.sin(angle) * extent / side
    middle = (side - 1) / 2
    x = centre[:, 0] - middle * (cos - sin)
    y = centre[:, 1] - middle * (sin + cos)
    rows: Sequence[NDArray[np.float64]] = (np.stack([cos, -sin, x], axis=1), np.stack([sin, cos, y], axis=1))
    return np.stack(rows, axis=1)


def _placed(points: NDArray[np.float64], to_frame: NDArray[np.float64]) -> NDArray[np.float64]:
    moved = points[..., :2] @ to_frame[:, :, :2].transpose(0, 2, 1) + to_frame[:, None, :, 2]
    scale = np.sqrt(np.abs(np.linalg.det(to_frame[:, :, :2])))[:, None, None]
    return np.concatenate([moved, points[..., 2:] * scale], axis=-1)
