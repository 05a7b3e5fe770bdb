"""The colour match in Lab of swapped crops, in their own memory and before they are laid back. See `farm.faces.lab`."""

from __future__ import annotations

import numpy as np

from farm.faces.cuda.crop import Packing
from farm.faces.cuda.paste import PastePlan, woven
from farm.faces.cuda.surface import Floats
from farm.faces.lab import matched
from farm.faces.neural_boost import to_phases

SUMS = 13
"""What a crop is summed up in: see lab.cu."""
MOVES = 10
"""What is done to a crop: see lab.cu."""


def recolour(
    given: Floats,
    made: Floats,
    packing: Packing,
    unpacking: Packing,
    masks: Floats,
    plan: PastePlan,
    phases: int,
    *,
    share: float,
) -> None:
    """The twin of the four kernels, in place: `made` (n · phases², 3, m, m) by `share` 0..1 like `given`, as large.

    masks (k, m · phases, m · phases), of which `plan` says whose is whose and how strong. A face whose mask is over a
    half nowhere stays as it is.
    """
    for face in range(len(plan)):
        some = np.s_[face * phases**2 : (face + 1) * phases**2]
        inside = masks[plan.mask_of[face]] * plan.strength[face] > np.float32(0.5)
        plate = (woven(given[some], phases) - packing.pack[3:]) / packing.pack[:3]
        after = woven(made[some], phases) * unpacking.unpack[:3] + unpacking.unpack[3:]
        after = np.clip(after, np.float32(0), np.float32(1))[..., :: unpacking.turn]
        mixed = matched(after, plate[..., :: packing.turn], inside, share)[..., :: unpacking.turn]
        stored = (mixed - unpacking.unpack[3:]) / unpacking.unpack[:3]
        made[some] = to_phases(stored[None], stored.shape[0] // phases).transpose(0, 3, 1, 2)
