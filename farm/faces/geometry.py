"""Plane and head geometry: similarities, affine maps, head pose, and the alignment template."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from farm.faces.mesh import canonical_mesh

Affine = NDArray[np.float64]
"""float64[2, 3]: (x, y, 1) to (x', y')."""

ARCFACE_112 = np.array(
    [[38.2946, 51.6963], [73.5318, 51.5014], [56.0252, 71.7366], [41.5493, 92.3655], [70.7299, 92.2041]]
)
"""Right eye, left eye, nose tip, right and left mouth corner in the 112-pixel crop that recognisers are trained on."""


def similarity(source: NDArray[np.floating], target: NDArray[np.floating]) -> Affine:
    """The rotation, scale and shift that bring `source` (n, 2) nearest to `target` in the least-squares sense.

    Umeyama, "Least-squares estimation of transformation parameters between two point patterns", PAMI 1991.
    """
    rotation, scale, shift = _umeyama(np.asarray(source, np.float64), np.asarray(target, np.float64))
    return np.hstack([scale * rotation, shift[:, None]])


def _umeyama(source: NDArray[np.float64], target: NDArray[np.float64]) -> tuple[Affine, float, NDArray[np.float64]]:
    mean_s, mean_t = source.mean(axis=0), target.mean(axis=0)
    s, t = source - mean_s, target - mean_t
    u, d, vt = np.linalg.svd(t.T @ s / len(s))
    sign = np.ones(len(d))
    if np.linalg.det(u) * np.linalg.det(vt) < 0:
        sign[-1] = -1
    rotation = (u * sign) @ vt
    variance = float((s**2).sum() / len(s))
    scale = float((d * sign).sum() / variance) if variance > 0 else 1.0
    return rotation, scale, mean_t - scale * rotation @ mean_s


def apply(affine: Affine, points: NDArray[np.floating]) -> NDArray[np.float64]:
    """`affine` of points (n, 2), or (n, 3) whose third coordinate is scaled with the plane."""
    plane = np.asarray(points, np.float64)
    moved = plane[:, :2] @ affine[:, :2].T + affine[:, 2]
    if plane.shape[1] == 2:
        return moved
    return np.column_stack([moved, plane[:, 2] * scale_of(affine)])


def scale_of(affine: Affine) -> float:
    """The factor by which lengths grow."""
    return float(np.sqrt(abs(np.linalg.det(affine[:, :2]))))


def invert(affine: Affine) -> Affine:
    inverse = np.linalg.inv(affine[:, :2])
    return np.hstack([inverse, (-inverse @ affine[:, 2])[:, None]])


def compose(second: Affine, first: Affine) -> Affine:
    """The map that applies `first`, then `second`."""
    return np.hstack([second[:, :2] @ first[:, :2], (second[:, :2] @ first[:, 2] + second[:, 2])[:, None]])


def crop_around(centre: NDArray[np.floating], side: float, angle: float, size: int) -> Affine:
    """Frame to a `size` x `size` crop of the square with `side`, turned until `angle` (radians) is level."""
    factor = size / side
    cos, sin = np.cos(angle) * factor, np.sin(angle) * factor
    rotation = np.array([[cos, sin], [-sin, cos]])
    # Pixel centres lie at whole numbers, so the middle of the crop is (size - 1) / 2.
    return np.hstack([rotation, ((size - 1) / 2 - rotation @ np.asarray(centre, np.float64)[:2])[:, None]])


@dataclass(frozen=True, slots=True)
class HeadPose:
    """Degrees. Yaw is positive when the face turns to the picture's right, pitch when it looks down, roll clockwise.

    The head is nodded first, then turned, then rolled.
    """

    yaw: float
    pitch: float
    roll: float


@cache
def _rigid_shape() -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Vertices that expressions move little (forehead, nose bridge, temples, cheekbones), in image axes."""
    vertices = canonical_mesh().vertices.astype(np.float64)
    index = np.array(
        [6, 8, 9, 10, 168, 197, 195, 5, 33, 263, 133, 362, 127, 356, 234, 454, 151, 67, 297, 109, 338, 116, 345]
    )
    return index, vertices[index] * [1, -1, -1]


@dataclass(frozen=True, slots=True)
class Placement:
    """How the rest shape lies in a picture, weak perspective: pixels = scale · rotation · shape + shift."""

    rotation: NDArray[np.float64]
    scale: float
    shift: NDArray[np.float64]

    def undo(self, points: NDArray[np.floating]) -> NDArray[np.float64]:
        """Landmarks (n, 3) as they lie on an upright head seen from the front, in centimetres, image axes."""
        return np.asarray((np.asarray(points, np.float64) - self.shift) @ self.rotation / self.scale)

    def turn(self, vectors: NDArray[np.floating]) -> NDArray[np.float64]:
        """Displacements (n, 3) on the upright head as displacements in the picture."""
        return np.asarray(self.scale * np.asarray(vectors, np.float64) @ self.rotation.T)


def placement(points: NDArray[np.floating]) -> Placement:
    """Placement of the head with these landmarks (>=468, 3), by the points that expressions move little."""
    index, shape = _rigid_shape()
    return Placement(*_umeyama(shape, np.asarray(points, np.float64)[index]))


def head_pose(points: NDArray[np.floating]) -> HeadPose:
    """Pose from landmarks (>=468, 3; pixels, z in the same scale, smaller is nearer), weak perspective."""
    rotation = placement(points).rotation
    yaw = np.degrees(np.arcsin(np.clip(rotation[2, 0], -1, 1)))
    pitch = np.degrees(np.arctan2(rotation[2, 1], rotation[2, 2]))
    roll = np.degrees(np.arctan2(rotation[1, 0], rotation[0, 0]))
    return HeadPose(float(yaw), float(pitch), float(roll))


def five_points(points: NDArray[np.floating]) -> NDArray[np.float64]:
    """Right eye, left eye, nose tip, mouth corners (5, 2) from landmarks (478, >=2)."""
    p = np.asarray(points, np.float64)[:, :2]
    eyes = [(p[a] + p[b]) / 2 for a, b in ((33, 133), (362, 263))]
    return np.array([*eyes, p[4], p[61], p[291]])


def bounding_box(points: NDArray[np.floating]) -> NDArray[np.float64]:
    """x0, y0, x1, y1 of points (n, >=2)."""
    p = np.asarray(points, np.float64)[:, :2]
    return np.concatenate([p.min(axis=0), p.max(axis=0)])
