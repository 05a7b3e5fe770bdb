"""The canonical face mesh (468 vertices, 898 triangles) and its rasteriser.

Every warp of the house is piecewise affine over this mesh: rasterise the mesh at the wanted points once, then
interpolate any per-vertex value (texture coordinates, points of another picture, weights) over the pixels.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache

import cv2
import numpy as np
from numpy.typing import NDArray

from farm.resources import resource

VERTICES = 468
"""Mesh vertices; the landmarker adds ten iris points after them."""

OVAL = (
    10, 338, 297, 332, 284, 251, 389, 356, 454, 323, 361, 288, 397, 365, 379, 378, 400, 377,
    152, 148, 176, 149, 150, 136, 172, 58, 132, 93, 234, 127, 162, 21, 54, 103, 67, 109,
)  # fmt: skip
"""The outline, clockwise in the picture, from the middle of the forehead."""

INNER_LIPS = (78, 191, 80, 81, 82, 13, 312, 311, 310, 415, 308, 324, 318, 402, 317, 14, 87, 178, 88, 95)
OUTER_LIPS = (61, 185, 40, 39, 37, 0, 267, 269, 270, 409, 291, 375, 321, 405, 314, 17, 84, 181, 91, 146)
RIGHT_EYE = (33, 246, 161, 160, 159, 158, 157, 173, 133, 155, 154, 153, 145, 144, 163, 7)
LEFT_EYE = (263, 466, 388, 387, 386, 385, 384, 398, 362, 382, 381, 380, 374, 373, 390, 249)
RIGHT_BROW = (70, 63, 105, 66, 107, 55, 65, 52, 53, 46)
LEFT_BROW = (300, 293, 334, 296, 336, 285, 295, 282, 283, 276)
"""Closed outlines; "right" is the person's right, which is the left of a picture that is not mirrored."""
BEYOND = 1 / 8
"""Share of what its corners span by which a pixel of a triangle may lie beyond them."""


@dataclass(frozen=True, slots=True)
class FaceMesh:
    """Topology and rest shape.

    Attributes
    ----------
    vertices: float32[468, 3], centimetres; x to the viewer's right, y up, z towards the viewer.
    uv: float32[468, 2], texture coordinates 0..1 with v pointing down (row / height).
    triangles: int32[898, 3]; they cover eyes and mouth as well.
    """

    vertices: NDArray[np.float32]
    uv: NDArray[np.float32]
    triangles: NDArray[np.int32]


@cache
def canonical_mesh() -> FaceMesh:
    """The mesh that lies in models/geometry/canonical_face.json (Apache-2.0)."""
    data = json.loads((resource("models") / "geometry" / "canonical_face.json").read_text())
    uv = np.array(data["uv"], np.float32)
    uv[:, 1] = 1 - uv[:, 1]
    return FaceMesh(np.array(data["vertices"], np.float32), uv, np.array(data["triangles"], np.int32))


@dataclass(frozen=True, slots=True)
class Raster:
    """Which triangle each pixel shows.

    Attributes
    ----------
    ids: int32[h, w], triangle index or -1 where the mesh is not.
    points: float64[v, 2], the pixel positions (x, y; pixel centres at whole numbers) that were drawn.
    triangles: int32[t, 3].
    """

    ids: NDArray[np.int32]
    points: NDArray[np.float64]
    triangles: NDArray[np.int32]

    @property
    def inside(self) -> NDArray[np.bool_]:
        return self.ids >= 0

    def interpolate(self, values: NDArray[np.floating], *, outside: float = -1.0) -> NDArray[np.float32]:
        """Per-vertex `values` (v, k) spread over the pixels: float32[h, w, k], `outside` where the mesh is not.

        Linear inside each triangle, as barycentric coordinates are: an affine map for each; the mean where it is flat.
        Pixels whose centres lie beyond their triangle's edge get values at most `BEYOND` of the corners' range farther
        than the corners': on a triangle seen nearly edge-on half a pixel would lead far away.
        """
        height, width = self.ids.shape
        x, y = self.points[self.triangles].transpose(2, 1, 0)[..., None]
        x1, y1, x2, y2 = x[1] - x[0], y[1] - y[0], x[2] - x[0], y[2] - y[0]
        a, b, c = values[self.triangles].astype(np.float64).transpose(1, 0, 2)
        area = x1 * y2 - x2 * y1
        flat = np.abs(area) < 1e-6
        area[flat] = np.inf
        along = ((b - a) * y2 - (c - a) * y1) / area
        down = ((c - a) * x1 - (b - a) * x2) / area
        start = np.where(flat, (a + b + c) / 3, a - along * x[0] - down * y[0])

        def over_pixels(each: NDArray[np.float64], beyond: float) -> NDArray[np.float32]:
            table = np.vstack([each, np.full((1, each.shape[1]), beyond)]).astype(np.float32)
            return np.asarray(table.take(self.ids, axis=0, mode="wrap"), np.float32)  # -1 is the last row

        out = over_pixels(along, 0) * np.arange(width, dtype=np.float32)[:, None]
        out += over_pixels(down, 0) * np.arange(height, dtype=np.float32)[:, None, None]
        out += over_pixels(start, outside)
        least, most = np.minimum(np.minimum(a, b), c), np.maximum(np.maximum(a, b), c)
        more = BEYOND * (most - least)
        least, most = over_pixels(least - more, outside), over_pixels(most + more, outside)
        return np.asarray(np.clip(out, least, most, out=out), np.float32)

    def barycentric(self) -> NDArray[np.float32]:
        """float32[h, w, 3]: weights of the pixel's triangle corners, summing to 1; -1 where the mesh is not."""
        height, width = self.ids.shape
        corner = self.points[self.triangles]
        system = np.concatenate([corner, np.ones((len(corner), 3, 1))], axis=2)
        system[np.abs(np.linalg.det(system)) < 1e-6] = np.eye(3)
        inverse = np.linalg.inv(system)
        row, column = np.nonzero(self.inside)
        picked = inverse[self.ids[row, column]]
        out = np.full((height, width, 3), -1, np.float32)
        out[row, column] = picked[:, 0] * column[:, None] + picked[:, 1] * row[:, None] + picked[:, 2]
        return out


def rasterise(
    points: NDArray[np.floating],
    shape: tuple[int, int],
    *,
    depth: NDArray[np.floating] | None = None,
    triangles: NDArray[np.int32] | None = None,
) -> Raster:
    """Draw the mesh at `points` (v, >=2; x right, y down, pixels) on a canvas of `shape` (h, w).

    With `depth` (v; larger is farther, as the landmarker's z) far triangles are drawn first and triangles that show
    their back are left out, so that a turned head hides its far cheek behind the nose.
    """
    mesh = canonical_mesh().triangles if triangles is None else triangles
    xy = np.asarray(points, np.float64)[:, :2]
    ids = np.full(shape, -1, np.int32)
    corner = xy[mesh]
    order = np.arange(len(mesh))
    if depth is not None:
        a, b = corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0]
        facing = a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0] < 0
        order = np.argsort(-np.asarray(depth)[mesh].mean(axis=1), kind="stable")
        order = order[facing[order]]
    fixed = np.round(corner * 16).astype(np.int32)
    for index in order:
        cv2.fillConvexPoly(ids, fixed[index], int(index), lineType=cv2.LINE_8, shift=4)
    return Raster(ids, xy, mesh)
