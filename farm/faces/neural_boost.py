"""Pixel boost: run a small swapper on a large crop, phase by phase.

A crop of side b·m is sampled into b² pictures of side m, each holding every b-th pixel (picture (i, j) starts at row i,
column j), so that every picture shows the whole face. They are swapped as one batch and woven together again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from farm.errors import RecipeError

Array = NDArray[Any]


def factor(side: int, model_side: int) -> int:
    """b for a crop of `side`; RecipeError where it is not a whole multiple of the model's side."""
    b, rest = divmod(side, model_side)
    if b < 1 or rest:
        raise RecipeError(
            f"A crop of {side} px cannot be made of pictures of {model_side} px.",
            where="pixel boost",
            do=f"Use a multiple of {model_side}.",
        )
    return b


def to_phases(crops: Array, model_side: int) -> Array:
    """(n, b·m, b·m, c) to (n·b², m, m, c), the phases of one crop side by side."""
    n, side, _, channels = crops.shape
    b = factor(side, model_side)
    split = crops.reshape(n, model_side, b, model_side, b, channels)
    return np.ascontiguousarray(split.transpose(0, 2, 4, 1, 3, 5)).reshape(n * b * b, model_side, model_side, channels)


def from_phases(phases: Array, side: int) -> Array:
    """The inverse of `to_phases`: (n·b², m, m, c) to (n, side, side, c)."""
    count, model_side, _, channels = phases.shape
    b = factor(side, model_side)
    split = phases.reshape(count // (b * b), b, b, model_side, model_side, channels)
    return np.ascontiguousarray(split.transpose(0, 3, 1, 4, 2, 5)).reshape(count // (b * b), side, side, channels)
