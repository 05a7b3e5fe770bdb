"""Whether a network's crops can be used: a crop with values that are no number, or that shows nothing, is not laid."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from farm.faces.cuda.crop import Packing
from farm.faces.cuda.surface import Floats

FLAT = 1e-4
"""A made crop whose channels all deviate less than this shows nothing."""
SUMS = 10
"""What a crop is summed up in: see usable.cu."""


def usable(made: NDArray[np.floating], unpacking: Packing, mask: Floats, phases: int) -> Floats:
    """The twin of the three kernels: float32 (faces,), 1 where usable.

    `made` is (faces · phases², 3, m, m); `mask` is (m · phases, m · phases).
    """
    small = made.shape[2]
    count = len(made) // phases**2
    weights = mask.reshape(small, phases, small, phases).transpose(1, 3, 0, 2).reshape(phases**2, 1, small, small)
    weights = np.tile(weights, (count, 1, 1, 1)).astype(np.float64)
    raw = made.astype(np.float64)
    sound = np.isfinite(raw)
    values = np.where(sound, raw, 0) * _across(unpacking.unpack[:3]) + _across(unpacking.unpack[3:])
    values = np.where(sound, np.clip(values, 0, 1), 0)

    def total(part: NDArray[Any]) -> NDArray[np.float64]:
        summed = part.sum(axis=(2, 3)).reshape(count, phases**2, -1)
        return np.asarray(summed.sum(axis=1))

    weight = np.maximum(total(weights), 1e-9)
    mean = total(weights * values) / weight
    spread = np.sqrt(np.maximum(total(weights * values**2) / weight - mean**2, 0))
    broken = total((~sound).astype(np.float64)).sum(axis=1)
    return np.asarray((broken == 0) & (spread.max(axis=1) > FLAT), np.float32)


def _across(values: Floats) -> NDArray[np.float64]:
    return values.astype(np.float64).reshape(1, 3, 1, 1)
