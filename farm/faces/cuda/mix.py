"""Restored crops mixed into the crops that were given, by the restorer's blend, and averaged where they will shrink.

Laying back reads four pixels of a crop for one of the frame: what shrinks by more would alias and flicker. The
processor shrinks such crops by area first (`neural_align.warped`); here as wide a square is averaged.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from farm.faces.cuda.crop import Packing
from farm.faces.cuda.surface import Floats

PLAIN = Packing(
    np.array([1, 1, 1, 0, 0, 0], np.float32), np.array([1, 1, 1, 0, 0, 0], np.float32), swapped=False, interleaved=False
)
"""How `mix` packs what it makes."""
_COARSE = 0.6
"""Under this scale the processor averages."""


def reaches(affine: Floats) -> NDArray[np.int32]:
    """How far to each side crops are averaged, int32[n], by the maps from frame to crop (n, 6)."""
    pixels = np.hypot(affine[:, 0], affine[:, 3])
    return np.where(pixels > 1 / _COARSE, np.floor(pixels / 2), 0).astype(np.int32)


def mix(
    given: NDArray[np.floating],
    made: NDArray[np.floating],
    reach: NDArray[np.int32],
    packing: Packing,
    unpacking: Packing,
    *,
    blend: float,
    out: Floats,
) -> None:
    """The twin of the kernel: fills `out` (n, 3, side, side), R'G'B' 0..1, of crops as large as `given` and `made`."""
    side = given.shape[2]
    for crop, far in enumerate(reach.tolist()):
        old = (given[crop].astype(np.float32) - _across(packing.pack[3:])) / _across(packing.pack[:3])
        new = made[crop].astype(np.float32) * _across(unpacking.unpack[:3]) + _across(unpacking.unpack[3:])
        new = np.clip(new, np.float32(0), np.float32(1))
        old, new = old[:: packing.turn], new[:: unpacking.turn]
        mixed = np.pad(old + (new - old) * np.float32(blend), ((0, 0), (far, far), (far, far)), mode="edge")
        total = np.zeros((3, side, side), np.float32)
        for dy in range(2 * far + 1):
            for dx in range(2 * far + 1):
                total += mixed[:, dy : dy + side, dx : dx + side]
        out[crop] = total * (np.float32(1) / np.float32((2 * far + 1) ** 2))


def _across(values: Floats) -> Floats:
    return values.reshape(3, 1, 1)
