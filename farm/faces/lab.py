"""The colour match of neural swaps: mean and spread of each Lab channel (CIE 1976, D65, sRGB's curve and primaries).

By the formulas: OpenCV reads Lab of floats from a table with 33 steps a channel, up to .7 off.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from farm.media.tonemap import Floats

_TO_XYZ = np.array(
    [[0.412453, 0.357580, 0.180423], [0.212671, 0.715160, 0.072169], [0.019334, 0.119193, 0.950227]], np.float64
)
_WHITE = np.array([[0.950456], [1.0], [1.088754]])
SPACE: Floats = np.concatenate([_TO_XYZ / _WHITE, np.linalg.inv(_TO_XYZ / _WHITE)]).ravel().astype(np.float32)
"""float32[18]: linear R, G, B to X, Y, Z as shares of white, row by row, and the way back."""
_DARK, _SLOPE, _FOOT = np.float32(0.008856), np.float32(7.787), np.float32(16 / 116)
_BRIGHT = np.float32(903.3)
_ZERO, _ONE = np.float32(0), np.float32(1)


def matched(made: Floats, plate: Floats, inside: NDArray[np.bool_], share: float) -> Floats:
    """`made` (h, w, 3) R'G'B' 0..1 with mean and spread of each Lab channel moved to the plate's, by `share` 0..1.

    Both are measured `inside` alone, the whole picture is moved; the spread at most by half or twice.
    """
    if share == 0 or not inside.any():
        return made
    lab = to_lab(made)
    theirs, ours = (values[inside].astype(np.float64) for values in (to_lab(plate), lab))
    gain = np.clip(theirs.std(axis=0) / np.maximum(ours.std(axis=0), 1e-3), 0.5, 2)
    mean, gain, wanted = (v.astype(np.float32) for v in (ours.mean(axis=0), gain, theirs.mean(axis=0)))
    moved = to_rgb((lab - mean) * gain + wanted)
    return np.asarray(made + (moved - made) * np.float32(share), np.float32)


def to_lab(rgb: Floats) -> Floats:
    """L 0..100, a, b of R'G'B' 0..1 (..., 3)."""
    curved = _power((rgb + np.float32(0.055)) / np.float32(1.055), 2.4)
    white = _through(SPACE[:9], np.where(rgb <= np.float32(0.04045), rgb / np.float32(12.92), curved))
    y = white[..., 1]
    fx, fy, fz = np.moveaxis(np.where(white > _DARK, np.cbrt(white), _SLOPE * white + _FOOT), -1, 0)
    bright = np.where(y > _DARK, np.float32(116) * fy - np.float32(16), _BRIGHT * y)
    return np.stack([bright, np.float32(500) * (fx - fy), np.float32(200) * (fy - fz)], axis=-1)


def to_rgb(lab: Floats) -> Floats:
    """The way back, clipped to 0..1."""
    bright, a, b = np.moveaxis(lab, -1, 0)
    dark, y = bright <= _DARK * _BRIGHT, bright / _BRIGHT
    fy = np.where(dark, _SLOPE * y + _FOOT, (bright + np.float32(16)) / np.float32(116))
    fx, fz = a / np.float32(500) + fy, fy - b / np.float32(200)
    white = np.stack([_straight(fx), np.where(dark, y, fy * fy * fy), _straight(fz)], axis=-1)
    light = np.clip(_through(SPACE[9:], white), _ZERO, _ONE)
    curved = np.float32(1.055) * _power(light, 1 / 2.4) - np.float32(0.055)
    encoded = np.where(light <= np.float32(0.0031308), light * np.float32(12.92), curved)
    return np.asarray(np.clip(encoded, _ZERO, _ONE), np.float32)


def _straight(values: Floats) -> Floats:
    return np.where(values > _SLOPE * _DARK + _FOOT, values * values * values, (values - _FOOT) / _SLOPE)


def _power(values: Floats, exponent: float) -> Floats:
    return np.asarray(np.power(np.maximum(values, _ZERO), np.float32(exponent)), np.float32)


def _through(rows: Floats, values: Floats) -> Floats:
    return np.asarray(values @ rows.reshape(3, 3).T, np.float32)
