"""Swapped crops blended into semi-planar frames, inside each face's box only.

The arithmetic is that of `farm.media.colour.paste_rgb`: rounding, the plate's own matrix and range, chroma by the
mask-weighted average over its footprint; where the mask is 0 the samples keep their bits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from farm.faces.cuda.crop import Packing, row_of
from farm.faces.cuda.surface import Floats, Samples, Surface

_MARGIN = 2
_LEAST = np.float32(1 / 512)
"""A fainter mask is none, as in `neural_align.lay_back`."""


@dataclass(frozen=True)
class PastePlan:
    """Where crops go.

    frame_of: int32[n]. box: int32[n, 4], even left, top, right, bottom in the frame. affine: float32[n, 6], frame pixel
    to crop pixel. layers: int32[n], faces of one frame in the order in which they are laid, each frame's from 0.
    mask_of: int32[n], which of the masks given counts. strength: float32[n], by which it is multiplied.
    """

    frame_of: NDArray[np.int32]
    box: NDArray[np.int32]
    affine: Floats
    layers: NDArray[np.int32]
    mask_of: NDArray[np.int32]
    strength: Floats

    def __len__(self) -> int:
        return len(self.frame_of)


def paste_plan(
    surface: Surface,
    frame_of: NDArray[np.integer],
    to_frame: NDArray[np.floating],
    side: int,
    *,
    mask_of: NDArray[np.integer] | None = None,
    strength: NDArray[np.floating] | None = None,
) -> PastePlan:
    """For crops of `side` whose maps to frame pixels are `to_frame` (n, 2, 3); later faces of a frame lie on top.

    By default every face has mask 0 in full strength.
    """
    inverse = np.linalg.inv(to_frame[:, :, :2])
    to_crop = np.concatenate([inverse, -inverse @ to_frame[:, :, 2:]], axis=2)
    corners = np.array([[0.0, 0, 1], [side - 1, 0, 1], [0, side - 1, 1], [side - 1, side - 1, 1]])
    placed = corners @ to_frame.transpose(0, 2, 1)
    low = (np.floor(placed.min(axis=1)).astype(np.int64) - _MARGIN) // 2 * 2
    high = -(-(np.ceil(placed.max(axis=1)).astype(np.int64) + 1 + _MARGIN) // 2) * 2
    limit = np.array([surface.width, surface.height])
    box = np.hstack([np.clip(low, 0, limit), np.clip(high, 0, limit)]).astype(np.int32)
    count = len(frame_of)
    before = np.tri(count, count, -1, dtype=bool)
    layers = ((np.asarray(frame_of)[:, None] == np.asarray(frame_of)) & before).sum(axis=1).astype(np.int32)
    return PastePlan(
        np.asarray(frame_of, np.int32),
        box,
        to_crop.reshape(-1, 6).astype(np.float32),
        layers,
        np.zeros(count, np.int32) if mask_of is None else np.asarray(mask_of, np.int32),
        np.ones(count, np.float32) if strength is None else np.asarray(strength, np.float32),
    )


def paste(
    frames: Samples,
    surface: Surface,
    plan: PastePlan,
    made: NDArray[np.floating],
    unpacking: Packing,
    masks: Floats,
    usable: Floats,
    *,
    phases: int = 1,
) -> None:
    """The twin of the kernel, in place. `made` (n · phases², 3, m, m), `masks` (k, side, side), `usable` (n,)."""
    for index in range(len(plan)):
        left, top, right, bottom = (int(v) for v in plan.box[index])
        if usable[index] == 0 or left >= right or top >= bottom:
            continue
        crop = woven(made[index * phases**2 : (index + 1) * phases**2], phases)
        box = (left - _MARGIN, top - _MARGIN, right + _MARGIN, bottom + _MARGIN)
        grid = _Grid.of(plan.affine[index], box, masks[plan.mask_of[index]], plan.strength[index])
        rgb = grid.colours(crop, unpacking)
        frame = frames[plan.frame_of[index]]
        blend(frame, surface, (left, top, right, bottom), grid.weight, rgb)


def coverage(surface: Surface, plan: PastePlan, count: int, masks: Floats) -> NDArray[np.bool_]:
    """Which samples of `count` frames a paste may change: bool (count, rows, width); all others keep their bits."""
    touched = np.zeros((count, surface.rows, surface.width), bool)
    for index in range(len(plan)):
        left, top, right, bottom = (int(v) for v in plan.box[index])
        if left >= right or top >= bottom:
            continue
        box = (left - _MARGIN, top - _MARGIN, right + _MARGIN, bottom + _MARGIN)
        heard = _Grid.of(plan.affine[index], box, masks[plan.mask_of[index]], plan.strength[index]).weight > 0
        frame = touched[plan.frame_of[index]]
        frame[top:bottom, left:right] |= heard[_MARGIN:-_MARGIN, _MARGIN:-_MARGIN]
        rows, columns = (bottom - top) // 2, (right - left) // 2
        chroma = frame[surface.height :].reshape(surface.height // 2, surface.width // 2, 2)
        target = chroma[top // 2 : bottom // 2, left // 2 : right // 2]
        for j, dy in enumerate((-1, 0, 1, 2)):
            for i, dx in enumerate((-1, 0, 1, 2)):
                if surface.code[27 + i] * surface.code[31 + j] > 0:
                    taken = np.s_[_MARGIN + dy :: 2, _MARGIN + dx :: 2]
                    target |= heard[taken][:rows, :columns, None]
    return touched


def weights(plan: PastePlan, index: int, masks: Floats) -> tuple[tuple[int, int, int, int], Floats]:
    """The box (left, top, right, bottom) of one face and the mask in it, as it is laid."""
    left, top, right, bottom = (int(v) for v in plan.box[index])
    mask, strength = masks[plan.mask_of[index]], plan.strength[index]
    return (left, top, right, bottom), _Grid.of(plan.affine[index], (left, top, right, bottom), mask, strength).weight


def woven(pictures: NDArray[np.floating], phases: int) -> Floats:
    """The phase pictures of one crop (b², 3, m, m) as one (side, side, 3), float32."""
    small = pictures.shape[2]
    split = pictures.astype(np.float32).reshape(phases, phases, 3, small, small)
    return split.transpose(3, 0, 4, 1, 2).reshape(small * phases, small * phases, 3)


@dataclass(frozen=True)
class _Grid:
    """Luma pixels of a box in crop coordinates, and the mask there (0 outside the crop)."""

    corners: tuple[NDArray[np.int64], ...]
    parts: tuple[Floats, Floats]
    weight: Floats

    @classmethod
    def of(cls, affine: Floats, box: tuple[int, int, int, int], mask: Floats, strength: np.float32) -> _Grid:
        left, top, right, bottom = box
        x, y = np.meshgrid(np.arange(left, right, dtype=np.float32), np.arange(top, bottom, dtype=np.float32))
        u = affine[0] * x + affine[1] * y + affine[2]
        v = affine[3] * x + affine[4] * y + affine[5]
        last = mask.shape[0] - 1
        inside = (u >= 0) & (v >= 0) & (u <= last) & (v <= last)
        u, v = np.where(inside, u, np.float32(0)), np.where(inside, v, np.float32(0))
        u0, v0 = u.astype(np.int64), v.astype(np.int64)
        corners = (u0, v0, np.minimum(u0 + 1, last), np.minimum(v0 + 1, last))
        parts = (u - u0.astype(np.float32), v - v0.astype(np.float32))
        grid = cls(corners, parts, np.zeros_like(u))
        weight = grid.read(mask) * strength
        return cls(corners, parts, np.where(inside & (weight >= _LEAST), weight, np.float32(0)))

    def read(self, plane: Floats) -> Floats:
        u0, v0, u1, v1 = self.corners
        pu, pv = self.parts
        one = np.float32(1)
        above = plane[v0, u0] * (one - pu) + plane[v0, u1] * pu
        below = plane[v1, u0] * (one - pu) + plane[v1, u1] * pu
        return np.asarray(above * (one - pv) + below * pv, np.float32)

    def colours(self, crop: Floats, unpacking: Packing) -> Floats:
        zero, one = np.float32(0), np.float32(1)
        channels = []
        for c in range(3):
            value = self.read(crop[..., c]) * unpacking.unpack[c] + unpacking.unpack[3 + c]
            channels.append(np.clip(value, zero, one))
        return np.stack(channels[::-1] if unpacking.swapped else channels, axis=-1)


def blend(frame: Samples, surface: Surface, box: tuple[int, int, int, int], weight: Floats, rgb: Floats) -> None:
    """`weight` and `rgb` cover the box and a margin of `_MARGIN` around it."""
    left, top, right, bottom = box
    code, shift, m = surface.code, surface.shift, _MARGIN
    values = [row_of(code[r : r + 4], rgb[..., 0], rgb[..., 1], rgb[..., 2]) for r in (12, 16, 20)]
    luma = frame[top:bottom, left:right]
    old = (luma >> shift).astype(np.float32)
    inner = np.s_[m:-m, m:-m]
    new = np.clip(np.rint((values[0][inner] - old) * weight[inner] + old), 0, code[26])
    luma[...] = np.where(weight[inner] > 0, new.astype(frame.dtype) << shift, luma)

    rows, columns = (bottom - top) // 2, (right - left) // 2
    y, x = np.arange(top - m, bottom + m), np.arange(left - m, right + m)
    there = ((y >= 0) & (y < surface.height))[:, None] & ((x >= 0) & (x < surface.width))[None, :]
    weight = np.where(there, weight, np.float32(0))
    sums = np.zeros((3, rows, columns), np.float32)
    for j, dy in enumerate((-1, 0, 1, 2)):
        for i, dx in enumerate((-1, 0, 1, 2)):
            share = code[27 + i] * code[31 + j]
            taken = np.s_[m + dy : m + dy + 2 * rows : 2, m + dx : m + dx + 2 * columns : 2]
            part = weight[taken]
            for k, term in enumerate((part, part * values[1][taken], part * values[2][taken])):
                sums[k] += share * term
    chroma = frame[surface.height :].reshape(surface.height // 2, surface.width // 2, 2)
    target = chroma[top // 2 : bottom // 2, left // 2 : right // 2]
    kept = np.float32(1) - np.minimum(sums[0], np.float32(1))
    for k in range(2):
        old = (target[..., k] >> shift).astype(np.float32)
        new = np.clip(np.rint(old * kept + sums[1 + k]), 0, code[26])
        target[..., k] = np.where(sums[0] > 0, new.astype(frame.dtype) << shift, target[..., k])
