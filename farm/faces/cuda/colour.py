"""Colour match of swapped crops, and the check whether a network's output is usable.

Mean and deviation of each channel under the mask are brought to the plate's (Reinhard et al., "Color transfer between
images", 2001, in the plate's own R'G'B'), by `strength` 0..1; the gain stays within 0.5 to 2.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from farm.faces.cuda.crop import Packing
from farm.faces.cuda.surface import Floats

FLAT = 1e-4
"""A made crop whose channels all deviate less than this shows nothing."""


def match(
    given: NDArray[np.floating],
    made: NDArray[np.floating],
    packing: Packing,
    unpacking: Packing,
    mask: Floats,
    phases: int,
    *,
    strength: float,
) -> Floats:
    """The twin of the two kernels: float32 (faces, 8), gains, biases, 1 where usable, and the widest deviation.

    `given` and `made` are (faces · phases², 3, m, m); `mask` is (m · phases, m · phases).
    """
    small = given.shape[2]
    count = len(given) // phases**2
    weights = mask.reshape(small, phases, small, phases).transpose(1, 3, 0, 2).reshape(phases**2, 1, small, small)
    weights = np.tile(weights, (count, 1, 1, 1)).astype(np.float64)
    before = (given.astype(np.float64) - _across(packing.pack[3:])) / _across(packing.pack[:3])
    raw = made.astype(np.float64)
    sound = np.isfinite(raw)
    raw = np.where(sound, raw, 0)
    after = np.where(sound, np.clip(raw * _across(unpacking.unpack[:3]) + _across(unpacking.unpack[3:]), 0, 1), 0)

    def total(values: NDArray[Any]) -> NDArray[np.float64]:
        summed = values.sum(axis=(2, 3)).reshape(count, phases**2, -1)
        return np.asarray(summed.sum(axis=1))

    weight = np.maximum(total(weights), 1e-9)
    mean_b, mean_a = total(weights * before) / weight, total(weights * after) / weight
    spread_b = np.sqrt(np.maximum(total(weights * before**2) / weight - mean_b**2, 0))
    spread_a = np.sqrt(np.maximum(total(weights * after**2) / weight - mean_a**2, 0))
    gain = np.clip(np.where(spread_a > 1e-4, spread_b / np.maximum(spread_a, 1e-12), 1), 0.5, 2)
    gain = 1 + strength * (gain - 1)
    bias = mean_a + strength * (mean_b - mean_a) - gain * mean_a
    widest = spread_a.max(axis=1, keepdims=True)
    usable = (total((~sound).astype(np.float64)).sum(axis=1, keepdims=True) == 0) & (widest > FLAT)
    return np.hstack([gain, bias, usable, widest]).astype(np.float32)


def _across(values: Floats) -> NDArray[np.float64]:
    return values.astype(np.float64).reshape(1, 3, 1, 1)
