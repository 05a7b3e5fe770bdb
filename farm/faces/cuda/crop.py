"""Crops for networks: any number of similarity or scale crops of a batch of frames, packed as their tensors.

Every output pixel is the mean of taps × taps bilinear samples spread evenly over its footprint, in the plate's own
samples; matrix, clipping to 0..1 and packing come after. The letterbox of a detector is such a crop too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from farm.faces.cuda.surface import Floats, Samples, Surface
from farm.inference.spec import Tensor

_MOST_TAPS = 8


@dataclass(frozen=True)
class Packing:
    """How RGB of 0..1 is stored in a tensor: value · pack[c] + pack[3 + c], channels by `swapped`, then the layout."""

    pack: Floats
    unpack: Floats
    swapped: bool
    interleaved: bool

    @classmethod
    def of(cls, tensor: Tensor) -> Packing:
        """From the contract of an image tensor; `unpack` undoes what `to_pictures` would undo."""
        low, high = tensor.range
        mean, std = (np.resize(np.array(v, np.float64), 3) for v in (tensor.mean, tensor.std))
        scale, shift = (high - low) / std, (low - mean) / std
        kept_scale, kept_shift = (scale, shift) if tensor.denormalise else (np.full(3, high - low), np.full(3, low))
        return cls(
            np.concatenate([scale, shift]).astype(np.float32),
            np.concatenate([1 / kept_scale, -kept_shift / kept_scale]).astype(np.float32),
            tensor.colour == "BGR",
            tensor.layout == "NHWC",
        )

    @property
    def turn(self) -> int:
        """The step by which channels are read to be R, G, B."""
        return -1 if self.swapped else 1


@dataclass(frozen=True)
class CropPlan:
    """What to cut: `frame_of` int32[n], `affine` float32[n, 6] (crop pixel to frame pixel), `taps` int32[n]."""

    frame_of: NDArray[np.int32]
    affine: Floats
    taps: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.frame_of)


def crop_plan(frame_of: NDArray[np.integer], to_frame: NDArray[np.floating]) -> CropPlan:
    """`to_frame` (n, 2, 3): similarity maps from crop pixels to frame pixels."""
    scale = np.sqrt(np.abs(to_frame[:, 0, 0] * to_frame[:, 1, 1] - to_frame[:, 0, 1] * to_frame[:, 1, 0]))
    taps = np.clip(np.ceil(scale - 1e-6), 1, _MOST_TAPS)
    return CropPlan(
        np.asarray(frame_of, np.int32), to_frame.reshape(-1, 6).astype(np.float32), np.asarray(taps, np.int32)
    )


@dataclass(frozen=True)
class Letterbox:
    """A whole frame in the top left of a square, turned counter-clockwise by `quarters` first.

    filled: columns and rows of the square that show it. to_frame: float64[2, 3], from positions in the square (edges at
    whole numbers, as detectors count) to those in the frame. pixels: the same for pixel centres.
    """

    side: int
    filled: tuple[int, int]
    to_frame: NDArray[np.float64]
    pixels: NDArray[np.float64]

    @classmethod
    def of(cls, surface: Surface, side: int, quarters: int = 0) -> Letterbox:
        width, height = surface.width, surface.height
        if quarters % 2:
            width, height = height, width
        scale = side / max(width, height)
        filled = (max(1, round(width * scale)), max(1, round(height * scale)))
        return cls.stretched(surface, side, filled, quarters)

    @classmethod
    def stretched(cls, surface: Surface, side: int, filled: tuple[int, int], quarters: int = 0) -> Letterbox:
        """The frame in `filled` columns and rows, whatever becomes of its proportions."""
        width, height = surface.width, surface.height
        # Where the turned picture's x and y lie in the frame, as `numpy.rot90` turns it.
        back = {
            0: [[1.0, 0, 0], [0, 1, 0]],
            1: [[0.0, -1, width], [1, 0, 0]],
            2: [[-1.0, 0, width], [0, -1, height]],
            3: [[0.0, 1, 0], [-1, 0, height]],
        }[quarters]
        if quarters % 2:
            width, height = height, width
        factor = np.array([width / filled[0], height / filled[1], 1.0])
        to_frame = np.array(back) * factor
        shift = to_frame[:, :2] @ [0.5, 0.5] + to_frame[:, 2] - 0.5
        return cls(side, filled, to_frame, np.hstack([to_frame[:, :2], shift[:, None]]))

    def plan(self, frames: NDArray[np.integer]) -> CropPlan:
        """The plan that letterboxes these frames of a batch."""
        return crop_plan(frames, np.broadcast_to(self.pixels, (len(frames), 2, 3)))


def crop(
    frames: Samples,
    surface: Surface,
    plan: CropPlan,
    packing: Packing,
    out: NDArray[np.floating],
    *,
    side: int,
    phases: int = 1,
    tall: int | None = None,
    filled: tuple[int, int] | None = None,
) -> None:
    """The twin of the kernel: fills `out`, (n · phases², 3, l, m) or (…, l, m, 3) with m = side / phases.

    l = tall / phases; tall is the side of a square where it is left out. Pixels at or beyond `filled` (columns, rows)
    become 0.
    """
    tall = tall or side
    columns, rows = filled or (side, tall)
    small, low = side // phases, tall // phases
    for index in range(len(plan)):
        picture = _picture(
            frames[plan.frame_of[index]], surface, plan.affine[index], int(plan.taps[index]), (side, tall)
        )
        stored = picture[..., :: packing.turn] * packing.pack[:3] + packing.pack[3:]
        stored[rows:] = 0
        stored[:, columns:] = 0
        split = stored.reshape(low, phases, small, phases, 3).transpose(1, 3, 0, 2, 4)
        split = split.reshape(phases * phases, low, small, 3)
        first = index * phases * phases
        out[first : first + phases * phases] = split if packing.interleaved else split.transpose(0, 3, 1, 2)


def _picture(frame: Samples, surface: Surface, affine: Floats, taps: int, size: tuple[int, int]) -> Floats:
    """RGB 0..1 (rows, columns, 3) of `size` (columns, rows), in the kernel's own order of operations."""
    one = np.float32(1)
    part = one / np.float32(taps)
    u, v = np.meshgrid(*(np.arange(count, dtype=np.float32) for count in size))
    sums = np.zeros((3, *u.shape), np.float32)
    for j in range(taps):
        for i in range(taps):
            a = u + ((np.float32(i) + np.float32(0.5)) * part - np.float32(0.5))
            b = v + ((np.float32(j) + np.float32(0.5)) * part - np.float32(0.5))
            x = affine[0] * a + affine[1] * b + affine[2]
            y = affine[3] * a + affine[4] * b + affine[5]
            for k, values in enumerate(samples_at(frame, surface, x, y)):
                sums[k] += values
    sums *= part * part
    code = surface.code
    rgb = np.stack([row_of(code[4 * c : 4 * c + 4], *sums) for c in range(3)], axis=-1)
    return np.asarray(np.clip(rgb, np.float32(0), one), np.float32)


def row_of(row: Floats, a: Floats, b: Floats, c: Floats) -> Floats:
    """One row of a 3 × 4 matrix times (a, b, c, 1)."""
    return np.asarray(row[0] * a + row[1] * b + row[2] * c + row[3], np.float32)


def samples_at(frame: Samples, surface: Surface, x: Floats, y: Floats) -> tuple[Floats, Floats, Floats]:
    """Bilinear Y, Cb, Cr at luma positions, edges repeated."""
    chroma = frame[surface.height :].reshape(surface.height // 2, surface.width // 2, 2)
    half = np.float32(0.5)
    cx, cy = (x - surface.code[24]) * half, (y - surface.code[25]) * half
    luma = bilinear(frame[: surface.height], x, y, surface.shift)
    return (
        luma,
        bilinear(chroma[..., 0], cx, cy, surface.shift),
        bilinear(chroma[..., 1], cx, cy, surface.shift),
    )


def bilinear(plane: Samples, x: Floats, y: Floats, shift: int = 0) -> Floats:
    fx, fy = np.floor(x), np.floor(y)
    px, py = x - fx, y - fy
    height, width = plane.shape
    x0, y0 = fx.astype(np.int64), fy.astype(np.int64)
    x1, y1 = np.clip(x0 + 1, 0, width - 1), np.clip(y0 + 1, 0, height - 1)
    x0, y0 = np.clip(x0, 0, width - 1), np.clip(y0, 0, height - 1)

    def at(row: NDArray[np.int64], column: NDArray[np.int64]) -> Floats:
        values = plane[row, column]
        return (values >> shift if shift else values).astype(np.float32)

    one = np.float32(1)
    above = at(y0, x0) * (one - px) + at(y0, x1) * px
    below = at(y1, x0) * (one - px) + at(y1, x1) * px
    return np.asarray(above * (one - py) + below * py, np.float32)
