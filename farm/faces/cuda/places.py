"""Where crops lie, for many faces at once: the arithmetic of `farm.faces.landmarks` and `farm.faces.geometry`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from farm.faces.mesh import VERTICES

_MARGIN = 1.5
_FAR = 0.06
"""Share of a crop's side by which the crop that its own points ask for may lie beside it."""


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
    turned = np.ascontiguousarray((plane @ level.transpose(0, 2, 1)).transpose(0, 2, 1))
    low, high = turned.min(axis=2), turned.max(axis=2)
    centre = ((low + high)[:, None] / 2 @ level)[:, 0]
    return _around(centre, (high - low).max(axis=1) * _MARGIN, angle, side)


def moved_far(points: NDArray[np.float64], to_frame: NDArray[np.float64], side: int) -> NDArray[np.bool_]:
    """Which landmarks (n, 478, 3) ask for another crop than the one (n, 2, 3) that they were seen in."""
    wanted = next_crops(points, side)
    middle = np.array([(side - 1) / 2, (side - 1) / 2, 1.0])
    size = np.sqrt(np.abs(np.linalg.det(to_frame[:, :, :2]))) * side
    shift = np.hypot(*((wanted - to_frame) @ middle).T)
    grown = np.abs(np.sqrt(np.abs(np.linalg.det(wanted[:, :, :2]))) * side - size)
    return np.asarray(np.maximum(shift, grown) > _FAR * size)


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


def placed(points: NDArray[np.float64], to_frame: NDArray[np.float64]) -> NDArray[np.float64]:
    """Points (n, k, 3) of crops in frame pixels, z in the same scale."""
    moved = points[..., :2] @ to_frame[:, :, :2].transpose(0, 2, 1) + to_frame[:, None, :, 2]
    scale = np.sqrt(np.abs(np.linalg.det(to_frame[:, :, :2])))[:, None, None]
    return np.concatenate([moved, points[..., 2:] * scale], axis=-1)


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
