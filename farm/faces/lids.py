"""Shut eyes of somebody whose pictures show them open: a lid of the person's own skin, and the plate's lash line."""

from __future__ import annotations

from functools import cache

import cv2
import numpy as np
from numpy.typing import NDArray

from farm.faces.bare import bared
from farm.faces.eyes import gaps
from farm.faces.mesh import LEFT_EYE, RIGHT_EYE, canonical_mesh
from farm.faces.texture import Mask, Texture, atlas, blurred, filled_outline, smoothstep

Shut = tuple[float, float]
"""How far the right and the left eye are shut, 0 open to 1."""

_NARROW, _SHUT = 0.2, 0.08
"""Gap between the lids over the eye's width: from where a lid is stretched, and where it is all that is seen."""
_RIMS = (RIGHT_EYE[8:] + RIGHT_EYE[:1], LEFT_EYE[8:] + LEFT_EYE[:1])
"""The lower lids from the inner to the outer corner: where the lashes of a shut eye lie."""
_LASHES = 0.045
"""How thick lashes lie there, as a share of the face's width."""
_DARKEST = 0.3
_RIM = 0.009
"""How thick the rims of the lids are, as a share of the unrolled face."""
_LUMA = np.array([0.2126, 0.7152, 0.0722], np.float32)


def shut(points: NDArray[np.floating]) -> Shut:
    """How far the eyes of a face with landmarks `points` (>=468, >=2) are shut."""
    right, left = (float(1 - smoothstep(np.array(gap), _SHUT, _NARROW)) for gap in gaps(points))
    return right, left


def lidded(detail: Texture, skin: Mask) -> Texture:
    """The unrolled face `detail` (n, n, 3) with both eyes covered by the skin around them; `skin` (m, m) is trusted."""
    place = np.maximum(*places(len(skin)))
    around = np.asarray(cv2.dilate(place, np.ones((5, 5), np.uint8)), np.float32)
    return bared(detail, np.asarray(skin * (1 - around), np.float32))


def with_lids(detail: Texture, lids: Texture, far: Shut) -> Texture:
    """`detail` with the eyes covered as `lids` has them, as `far` as each eye is shut."""
    out, lids = detail, fitting(lids, len(detail))
    for place, share in zip(places(len(detail)), far, strict=True):
        if share > 0:
            if out is detail:
                out = detail.copy()
            rows, columns = np.flatnonzero(place.any(axis=1)), np.flatnonzero(place.any(axis=0))
            part = (slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1))
            out[part] += (lids[part] - detail[part]) * (place[part] * np.float32(share))[..., None]
    return out


def fitting(lids: Texture, side: int) -> Texture:
    """`lids` for a texture of `side`: a bank of small faces is coarser than the picture that they are made of."""
    if len(lids) == side:
        return lids
    return np.asarray(cv2.resize(lids, (side, side), interpolation=cv2.INTER_AREA), np.float32)


def with_lashes(painted: Texture, plate: Texture, points: NDArray[np.floating], far: Shut, width: float) -> Texture:
    """`painted` (h, w, 3) with the dark line of the plate's lashes on lids that are shut `far`.

    `points` are landmarks in its pixels, `width` the face's.
    """
    out = painted
    for rows, columns, mask in lashes(points, far, width, painted.shape):
        if out is painted:
            out = painted.copy()
        luma = np.asarray(plate[rows, columns] @ _LUMA, np.float32)
        out[rows, columns] = painted[rows, columns] * (1 + (darker(luma, width) - 1) * mask)[..., None]
    return out


def lashes(
    points: NDArray[np.floating], far: Shut, width: float, shape: tuple[int, ...]
) -> list[tuple[slice, slice, Mask]]:
    """Where the lashes of shut eyes lie on a canvas (h, w): rows, columns, and how much (0..1)."""
    found = []
    for rim, share in zip(_RIMS, far, strict=True):
        line = np.asarray(points, np.float64)[list(rim), :2]
        reach = _LASHES * width
        low = np.maximum(np.floor(line.min(axis=0) - reach), 0).astype(int)
        high = np.minimum(np.ceil(line.max(axis=0) + reach) + 1, shape[1::-1]).astype(int)
        if share == 0 or (high - low < 3).any():
            continue
        near = np.zeros((high - low)[::-1], np.uint8)
        fixed = np.round((line - low) * 16).astype(np.int32)
        cv2.polylines(near, [fixed], False, 255, max(1, round(reach)), cv2.LINE_AA, 4)
        mask = blurred(near.astype(np.float32) / np.float32(255), max(0.5, reach / 3)) * np.float32(share)
        found.append((slice(low[1], high[1]), slice(low[0], high[0]), mask))
    return found


def darker(luma: Mask, width: float) -> Mask:
    """How much darker a line is than the lid around it: the plate's skin colour and paint stay out."""
    radius = max(1, round(_LASHES * width))
    lid = blurred(np.asarray(cv2.morphologyEx(luma, cv2.MORPH_CLOSE, _disc(radius)), np.float32), 1.0)
    return np.clip((luma + 0.02) / (lid + 0.02), _DARKEST, 1).astype(np.float32)


@cache
def places(side: int) -> tuple[Mask, Mask]:
    """Each eye with the rims of its lids in a texture, soft edges; the fold above it stays the person's."""

    def of(eye: tuple[int, ...]) -> Mask:
        inner = filled_outline(canonical_mesh().uv[list(eye)] * side - 0.5, (side, side))
        soft = blurred(np.asarray(cv2.dilate(inner, _disc(round(_RIM * side))), np.float32), _RIM * side)
        soft[soft < 1 / 512] = 0
        return np.asarray(soft * atlas(side).inside, np.float32)

    return of(RIGHT_EYE), of(LEFT_EYE)


def _disc(radius: int) -> NDArray[np.uint8]:
    side = 2 * max(1, radius) + 1
    return np.asarray(cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (side, side)), np.uint8)
