"""Canvases: the boxes of many faces as R'G'B', cut out of semi-planar frames and laid back into them; faces unrolled.

The arithmetic is that of `farm.media.colour` (`region_to_rgb`, `paste_rgb`) and of `farm.faces.texture.unwrap`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from farm.faces.cuda.crop import row_of, samples_at
from farm.faces.cuda.paste import blend
from farm.faces.cuda.surface import Floats, Samples, Surface
from farm.faces.texture import SIZE, atlas
from farm.faces.views import Box

Ints = NDArray[np.int32]
_AROUND = 2


@dataclass(frozen=True)
class Canvases:
    """Where the canvases of n faces lie: one behind the other, row by row.

    frame_of: int32[n]. box: int32[n, 4], left, top, right, bottom in the frame. start: int32[n], a face's first pixel.
    """

    frame_of: Ints
    box: Ints
    start: Ints

    @classmethod
    def of(cls, frame_of: Sequence[int], boxes: Sequence[Box]) -> Canvases:
        box = np.array(boxes, np.int32).reshape(-1, 4)
        sizes = (box[:, 2] - box[:, 0]) * (box[:, 3] - box[:, 1])
        start = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        return cls(np.array(frame_of, np.int32), box, start.astype(np.int32))

    def __len__(self) -> int:
        return len(self.frame_of)

    @property
    def sizes(self) -> Ints:
        """Width and height of each, int32[n, 2]."""
        return np.asarray(self.box[:, 2:] - self.box[:, :2])

    @property
    def pixels(self) -> int:
        return int(self.sizes.prod(axis=1).sum())

    @property
    def most(self) -> int:
        """Pixels of the largest."""
        return int(self.sizes.prod(axis=1).max())


def faces_of(box: Ints, start: Ints) -> Iterator[tuple[int, tuple[int, int], slice]]:
    """Each face's number, the shape (h, w) of its canvas and where its pixels lie."""
    for face, (left, top, right, bottom) in enumerate(box.tolist()):
        first = int(start[face])
        yield face, (bottom - top, right - left), slice(first, first + (bottom - top) * (right - left))


def canvas_rgb(frames: Samples, surface: Surface, frame_of: Ints, box: Ints, start: Ints, rgb: Floats) -> None:
    """The twin: fills `rgb` (pixels, 3)."""
    for face, (height, width), some in faces_of(box, start):
        y, x = np.mgrid[:height, :width].astype(np.float32)
        place = (x + np.float32(box[face, 0]), y + np.float32(box[face, 1]))
        rgb[some] = rgb_at(frames[frame_of[face]], surface, *place).reshape(-1, 3)


def rgb_at(frame: Samples, surface: Surface, x: Floats, y: Floats) -> Floats:
    """R'G'B' (..., 3), unclipped, at whole luma pixels, edges repeated."""
    x = np.clip(x, 0, surface.width - 1).astype(np.float32)
    y = np.clip(y, 0, surface.height - 1).astype(np.float32)
    samples = samples_at(frame, surface, x, y)
    return np.stack([row_of(surface.code[4 * c : 4 * c + 4], *samples) for c in range(3)], axis=-1)


def canvas_lay(
    frames: Samples,
    surface: Surface,
    frame_of: Ints,
    box: Ints,
    start: Ints,
    rgb: Floats,
    mask: Floats,
    flags: Ints,
    across: int,
) -> None:
    """The twin: blends `rgb` (pixels, 3) by `mask` (pixels) into the frames; faces with `flags[:, 0]` are left out.

    `across`: how many chroma samples of a row one of the kernel's blocks' rows takes; of no matter here.
    """
    for face, (height, width), some in faces_of(box, start):
        if flags[face, 0]:
            continue
        left, top, right, bottom = box[face].tolist()
        even = (
            max(0, left // 2 * 2 - 2),
            max(0, top // 2 * 2 - 2),
            min(surface.width, -(-right // 2) * 2 + 2),
            min(surface.height, -(-bottom // 2) * 2 + 2),
        )
        room = (
            (top - even[1] + _AROUND, even[3] - bottom + _AROUND),
            (left - even[0] + _AROUND, even[2] - right + _AROUND),
        )
        weight = np.pad(mask[some].reshape(height, width), room)
        picture = np.pad(rgb[some].reshape(height, width, 3), (*room, (0, 0)))
        blend(frames[frame_of[face]], surface, even, weight, picture)


def cells_across(canvases: Canvases) -> tuple[int, int]:
    """Columns and rows of chroma samples that a launch of `canvas_lay` needs for each face."""
    across, down = (int(v) for v in canvases.sizes.max(axis=0))
    return across // 2 + 4, down // 2 + 4


def unroll(
    frames: Samples,
    surface: Surface,
    frame_of: Ints,
    points: Floats,
    vertices: int,
    corners: Ints,
    weights: Floats,
    pixels: int,
    out: Floats,
) -> None:
    """The twin: `points` (n, vertices, 2) in frame pixels; `corners` and `weights` are `plan_of_unrolling`'s.

    Fills `out` (n, pixels, 3), 0 where the face is not.
    """
    seen = corners[:, 0] >= 0
    for face, frame in enumerate(frame_of):
        corner, w = points[face][corners[seen]], weights[seen]
        spot = corner[:, 0] * w[:, :1] + corner[:, 1] * w[:, 1:2] + corner[:, 2] * w[:, 2:]
        low = np.floor(spot)
        px, py = (spot - low).T[..., None]
        x, y = low.T
        one, picture = np.float32(1), frames[frame]
        a, b, c, d = (rgb_at(picture, surface, x + i, y + j) for j in (0, 1) for i in (0, 1))
        above, below = a * (one - px) + b * px, c * (one - px) + d * px
        out[face] = 0
        out[face, seen] = above * (one - py) + below * py


@cache
def plan_of_unrolling() -> tuple[Ints, Floats]:
    """For each pixel of the square in which faces are analysed: three vertices (-1 for no face) and their weights."""
    place = atlas()
    corners = np.full((SIZE * SIZE, 3), -1, np.int32)
    weights = np.zeros((SIZE * SIZE, 3), np.float32)
    corners[place.inside.ravel()] = place.corners
    weights[place.inside.ravel()] = place.weights
    return corners, weights
