"""Sample values to R'G'B' and back: matrices of ITU-T H.273 (8.3), ITU-R BT.601, BT.709 and BT.2020."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from farm.media.colour_guess import guess_matrix
from farm.media.frame import Frame

_LUMA_WEIGHTS = {
    "bt709": (0.2126, 0.0722),
    "fcc": (0.30, 0.11),
    "bt470bg": (0.299, 0.114),
    "smpte170m": (0.299, 0.114),
    "smpte240m": (0.212, 0.087),
    "bt2020nc": (0.2627, 0.0593),
}
"""Kr, Kb. What is not here and not YCgCo (constant luminance, ICtCp) is read with BT.2020's: wrong in hue by a little,
but the same both ways."""

Matrix = NDArray[np.float32]


@dataclass(frozen=True)
class Coding:
    """`to_rgb` (3×4) maps samples (Y, Cb, Cr, or R, G, B, 1) to R'G'B' of 0..1, `from_rgb` (3×4) the other way.

    `top` is the greatest sample value.
    """

    to_rgb: Matrix
    from_rgb: Matrix
    top: int


def coding_of(frame: Frame) -> Coding:
    """How the samples of `frame` are to be read; unknown matrices and ranges as players guess them."""
    fmt, colour = frame.format, frame.colour
    matrix = colour.matrix
    if fmt.family == "yuv" and matrix in ("unknown", "gbr"):
        matrix = guess_matrix(frame.height)
    # FFmpeg and players take silent RGB and grey for full range, silent YUV for limited.
    full = colour.range == "pc" or (colour.range == "unknown" and fmt.family != "yuv")
    return _coding(fmt.family, matrix, full, fmt.depth)


@lru_cache(maxsize=64)
def _coding(family: str, matrix: str, full: bool, depth: int) -> Coding:
    unit = float(1 << (depth - 8))
    top = (1 << depth) - 1
    luma_scale, luma_zero = (float(top), 0.0) if full else (219.0 * unit, 16.0 * unit)
    chroma_scale = float(top) if full else 224.0 * unit
    forward = np.eye(4)
    if family == "rgb":
        forward[:3, :3] = np.eye(3) * luma_scale
        forward[:3, 3] = luma_zero
    else:
        forward[:3, :3] = np.diag([luma_scale, chroma_scale, chroma_scale]) @ _ycbcr(matrix)
        forward[:3, 3] = (luma_zero, 128.0 * unit, 128.0 * unit)
    backward = np.linalg.inv(forward)
    return Coding(backward[:3].astype(np.float32), forward[:3].astype(np.float32), top)


def _ycbcr(matrix: str) -> NDArray[np.float64]:
    """R'G'B' to Y (0..1), Cb, Cr (-0.5..0.5)."""
    if matrix == "ycgco":
        return np.array([[0.25, 0.5, 0.25], [-0.25, 0.5, -0.25], [0.5, 0.0, -0.5]])
    kr, kb = _LUMA_WEIGHTS.get(matrix, _LUMA_WEIGHTS["bt2020nc"])
    luma = np.array([kr, 1.0 - kr - kb, kb])
    blue = (np.array([0.0, 0.0, 1.0]) - luma) / (2.0 * (1.0 - kb))
    red = (np.array([1.0, 0.0, 0.0]) - luma) / (2.0 * (1.0 - kr))
    return np.stack([luma, blue, red])
