"""Eyes: how open they are, where the irises lie and what colour they have."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from farm.faces.mesh import LEFT_EYE, RIGHT_EYE, VERTICES
from farm.faces.texture import Mask, Texture, blurred, filled_outline, smoothstep

Outline = tuple[int, ...]
_EYES: tuple[tuple[Outline, int, Outline], ...] = (
    (RIGHT_EYE, 468, (469, 470, 471, 472)),
    (LEFT_EYE, 473, (474, 475, 476, 477)),
)
_LIDS = ((159, 145, 33, 133), (386, 374, 263, 362))
_EDGE = 0.004
"""How soft an eyeball's edge is, as a share of the face."""
_LUMA = np.array([0.2126, 0.7152, 0.0722], np.float32)


def openness(points: NDArray[np.floating]) -> float:
    """Gap between the lids over the eye's width, the mean of both eyes: about .3 open, under .1 shut."""
    return float(np.mean(gaps(points)))


def gaps(points: NDArray[np.floating]) -> tuple[float, float]:
    """Gap between the lids over the eye's width, of the right and the left eye of a face (>=468, >=2)."""
    p = np.asarray(points, np.float64)[:, :2]
    right, left = (
        float(np.hypot(*(p[up] - p[low]))) / max(1e-6, float(np.hypot(*(p[a] - p[b])))) for up, low, a, b in _LIDS
    )
    return right, left


def eyeballs(points: NDArray[np.floating], shape: tuple[int, int]) -> Mask:
    """What is seen between the lids, on a canvas (h, w)."""
    return np.maximum(*(filled_outline(points[list(outline)], shape) for outline, _, _ in _EYES))


def balls(points: NDArray[np.floating], shape: tuple[int, int]) -> list[tuple[slice, slice, Mask]]:
    """Right and left eyeball as far as they are seen, with soft edges: rows, columns and mask on a canvas (h, w).

    The mask of an eye that lies beside the canvas has no pixels.
    """
    width = float(np.ptp(points[:VERTICES, :2], axis=0).max())
    soft = max(0.5, _EDGE * width)
    found = []
    for outline, _, _ in _EYES:
        line = np.asarray(points, np.float64)[list(outline), :2]
        low = np.clip(np.floor(line.min(axis=0) - 4 * soft), 0, shape[::-1]).astype(int)
        high = np.clip(np.ceil(line.max(axis=0) + 4 * soft) + 1, low, shape[::-1]).astype(int)
        hard = np.zeros((high - low)[::-1], np.float32)
        if hard.size:
            hard = blurred(filled_outline(line - low, hard.shape), soft)
        found.append((slice(low[1], high[1]), slice(low[0], high[0]), hard))
    return found


def irises(points: NDArray[np.floating], shape: tuple[int, ...]) -> list[tuple[slice, slice, Mask]]:
    """Both irises as far as the lids leave them, with soft edges: rows, columns and mask on a canvas (h, w).

    An iris that lies beside the canvas is left out.
    """
    found = []
    for outline, centre, ring in _EYES:
        radius = _radius(points, centre, ring)
        reach = 1.15 * radius + 1.5
        low = np.maximum(np.floor(points[centre, :2] - reach), 0).astype(int)
        high = np.minimum(np.ceil(points[centre, :2] + reach) + 1, shape[1::-1]).astype(int)
        if (high - low < 2).any():
            continue
        row, column = np.mgrid[low[1] : high[1], low[0] : high[0]].astype(np.float32)
        distance = np.hypot(column - points[centre, 0], row - points[centre, 1])
        disc = 1 - smoothstep(distance, 0.75 * radius, 1.15 * radius + 0.5)
        lids = filled_outline(points[list(outline), :2] - low, (len(disc), disc.shape[1]))
        found.append((slice(low[1], high[1]), slice(low[0], high[0]), disc * lids))
    return found


def iris_colour(rgb: Texture, points: NDArray[np.floating]) -> NDArray[np.float32] | None:
    """Median RGB of both irises without pupil and glints; None where the eyes are shut or only a few pixels large.

    `points` are landmarks (478, >=2) in pixels of `rgb` (h, w, 3).
    """
    if openness(points) < 0.15:
        return None
    pixels: list[NDArray[np.float32]] = []
    for outline, centre, ring in _EYES:
        radius = _radius(points, centre, ring)
        x0, y0 = (max(0, int(v - radius - 1)) for v in points[centre, :2])
        patch = rgb[y0 : y0 + int(2 * radius) + 4, x0 : x0 + int(2 * radius) + 4]
        if radius < 2.5 or 0 in patch.shape:
            return None
        row, column = np.mgrid[: patch.shape[0], : patch.shape[1]]
        distance = np.hypot(column + x0 - points[centre, 0], row + y0 - points[centre, 1]) / radius
        seen = filled_outline(points[list(outline), :2] - [x0, y0], patch.shape[:2]) > 0.9
        pixels.append(patch[seen & (distance > 0.4) & (distance < 0.9)])
    sample = np.concatenate(pixels)
    if len(sample) < 12:
        return None
    luma = sample @ _LUMA
    return np.asarray(np.median(sample[luma <= np.quantile(luma, 0.8)], axis=0), np.float32)


def _radius(points: NDArray[np.floating], centre: int, ring: Outline) -> float:
    return float(np.hypot(*(points[list(ring), :2] - points[centre, :2]).T).mean())
