"""The mesh drawn on every face's canvas, and where each pixel leads: into the texture, and to the plate under it.

Triangles are drawn by OpenCV's rule for filled convex polygons, pixel for pixel, far ones first,
on every other pixel where the face is large (`meshwarp.step_of`).
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from farm.faces.cuda.canvas import Ints, faces_of
from farm.faces.cuda.surface import Floats
from farm.faces.mesh import BEYOND, VERTICES, canonical_mesh
from farm.faces.meshwarp import step_of

FLAT = np.float32(1e-6)
"""Twice the area, in pixels, under which a triangle is a line."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """One face's mesh on its canvas.

    fixed: int32[t, 3, 2], corners in sixteenths of a pixel. rank: int32[t], 0 for triangles that show their back, else
    from 1 in the order of drawing, far ones first. order: int32[t], the triangle of each rank from 1.
    points, source: float32[468, 2], the vertices on the canvas and on the plate under it. step: plate pixels for one of
    the canvas, which has `shape` (h, w).
    """

    fixed: Ints
    rank: Ints
    order: Ints
    points: Floats
    source: Floats
    step: int
    shape: tuple[int, int]

    @classmethod
    def of(cls, points: NDArray[np.float64], source: NDArray[np.float64], whole: tuple[int, int]) -> Drawing:
        """Of landmarks (>=468, 3; larger z is farther) in pixels of a region `whole` (h, w)."""
        step = step_of(whole)
        points = points / step
        corners = canonical_mesh().triangles
        corner = points[:VERTICES, :2][corners]
        a, b = corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0]
        facing = a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0] < 0
        drawn = np.argsort(-points[:, 2][corners].mean(axis=1), kind="stable")
        drawn = drawn[facing[drawn]]
        rank, order = np.zeros(len(corners), np.int32), np.zeros(len(corners), np.int32)
        rank[drawn] = np.arange(1, len(drawn) + 1)
        order[: len(drawn)] = drawn
        shape = (-(-whole[0] // step) + step - 1, -(-whole[1] // step) + step - 1)
        return cls(np.round(corner * 16).astype(np.int32), rank, order, *_flat(points, source), step, shape)


def _flat(points: NDArray[np.float64], source: NDArray[np.float64]) -> tuple[Floats, Floats]:
    return points[:VERTICES, :2].astype(np.float32), source[:VERTICES, :2].astype(np.float32)


def raster_draw(box: Ints, start: Ints, triangles: int, fixed: Ints, rank: Ints, shown: Ints) -> None:
    """The twin: raises `shown` (pixels) to the rank of the triangle seen there."""
    for face, (height, width), some in faces_of(box, start):
        # OpenCV bends lines that leave its canvas a little: here none does.
        low, high = fixed[face].min(axis=(0, 1)) // 16, -(-fixed[face].max(axis=(0, 1)) // 16)
        left, top = (max(0, 1 - int(v)) for v in low)
        right, bottom = (max(0, int(v) + 2 - size) for v, size in zip(high, (width, height), strict=True))
        canvas = np.zeros((top + height + bottom, left + width + right), np.int32)
        placed = fixed[face] + np.array([left, top], np.int32) * 16
        for triangle in np.argsort(rank[face], kind="stable"):
            number = int(rank[face, triangle])
            if number:
                cv2.fillConvexPoly(canvas, placed[triangle], number, lineType=cv2.LINE_8, shift=4)
        shown[some] = np.maximum(shown[some], canvas[top : top + height, left : left + width].ravel())


def raster_map(
    box: Ints,
    start: Ints,
    triangles: int,
    vertices: int,
    shown: Ints,
    order: Ints,
    corners: Ints,
    points: Floats,
    source: Floats,
    uv: Floats,
    step: Ints,
    spots: Floats,
) -> None:
    """The twin: fills `spots` (pixels, 5): u, v (-1 where the mesh is not), x, y on the plate, 1 for the mesh."""
    for face, (height, width), some in faces_of(box, start):
        y, x = (v.ravel() for v in np.mgrid[:height, :width].astype(np.float32))
        out, number = spots[some], shown[some]
        out[:, :2] = -1
        out[:, 2], out[:, 3], out[:, 4] = x * np.float32(step[face]), y * np.float32(step[face]), number > 0
        seen = number > 0
        corner = corners[order[face][number[seen] - 1]]
        weights = _weights(points[face][corner], x[seen], y[seen])
        for values, columns in ((uv, slice(0, 2)), (source[face], slice(2, 4))):
            at = values[corner]
            spread = sum(weights[k][:, None] * at[:, k] for k in range(3))
            least, most = at.min(axis=1), at.max(axis=1)
            more = (most - least) * np.float32(BEYOND)
            out[seen, columns] = np.clip(spread, least - more, most + more)


def raster_spread(
    box: Ints, start: Ints, small_box: Ints, small_start: Ints, step: Ints, small: Floats, spots: Floats
) -> None:
    """The twin: `small` (pixels, 5) of every `step`-th pixel on all of them, linear between, edges repeated."""
    small_faces = [(shape, some) for _, shape, some in faces_of(small_box, small_start)]
    for face, (height, width), some in faces_of(box, start):
        shape, where = small_faces[face]
        given, by, one = small[where].reshape(*shape, 5), int(step[face]), np.float32(1)
        (y0, py), (x0, px) = (np.divmod(np.arange(count), by) for count in (height, width))
        y1, x1 = np.minimum(y0 + 1, shape[0] - 1), np.minimum(x0 + 1, shape[1] - 1)
        across = (px.astype(np.float32) / np.float32(by))[None, :, None]
        down = (py.astype(np.float32) / np.float32(by))[:, None, None]
        above = given[y0][:, x0] * (one - across) + given[y0][:, x1] * across
        below = given[y1][:, x0] * (one - across) + given[y1][:, x1] * across
        spots[some] = (above * (one - down) + below * down).reshape(-1, 5)


def _weights(corner: Floats, x: Floats, y: Floats) -> tuple[Floats, Floats, Floats]:
    a, b, c = corner.transpose(1, 2, 0)
    bx, by, cx, cy = b[0] - a[0], b[1] - a[1], c[0] - a[0], c[1] - a[1]
    dx, dy = x - a[0], y - a[1]
    area = bx * cy - by * cx
    flat = np.abs(area) < FLAT
    area = np.where(flat, np.float32(1), area)
    third_part = np.float32(1) / np.float32(3)
    second = np.where(flat, third_part, (dx * cy - dy * cx) / area)
    third = np.where(flat, third_part, (bx * dy - by * dx) / area)
    return np.float32(1) - second - third, second, third
