"""Every face's texture: an identity's own, or two frames of its bank mixed by region, with lids where eyes are shut.

The arithmetic is that of `farm.faces.dressing.dressed` and `farm.faces.lids.with_lids`.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from farm.faces import lids
from farm.faces.bankpath import Shares
from farm.faces.cuda.canvas import Ints
from farm.faces.cuda.surface import Floats
from farm.faces.dressing import eyes_place, mouth_place


@cache
def places(side: int) -> Floats:
    """float32[4, side²]: how much a place belongs to eyes, mouth, right and left lid."""
    return np.stack([eyes_place(side), mouth_place(side), *lids.places(side)]).reshape(4, -1)


def chosen(shares: Shares | None) -> tuple[Ints, Floats, Ints]:
    """Two bank frames for each region (3, 2), their shares over 255 (3, 2), and whether eyes and mouth differ (2)."""
    which, parts = np.zeros((3, 2), np.int32), np.zeros((3, 2), np.float32)
    if shares is None:
        return which, parts, np.zeros(2, np.int32)
    for region, row in enumerate(shares):
        found = np.flatnonzero(row)[:2]
        which[region, : len(found)] = found
        parts[region, : len(found)] = row[found] / np.float32(255)
    differ = [not np.array_equal(shares[region], shares[0]) for region in (1, 2)]
    return which, parts, np.array(differ, np.int32)


def dress(
    rows: Ints,
    pixels: int,
    kind: int,
    detail: Floats,
    bank: NDArray[np.uint8],
    which: Ints,
    shares: Floats,
    laid: Ints,
    lidded: int,
    over: Floats,
    far: Floats,
    areas: Floats,
    out: Floats,
) -> None:
    """The twin: fills `out[rows]` (n, pixels, 3) as dress.cu says; `over` are the lids."""
    for face in rows:
        value = detail.reshape(pixels, 3) if not kind else _mixed(bank, which[face, 0], shares[face, 0], pixels)
        for region in (1, 2):
            if kind and laid[face, region - 1]:
                other = _mixed(bank, which[face, region], shares[face, region], pixels)
                value = value + (other - value) * areas[region - 1][:, None]
        made = value.copy()
        for eye in (0, 1):
            if lidded and far[face, eye] > 0:
                made += (over.reshape(pixels, 3) - value) * (areas[2 + eye] * far[face, eye])[:, None]
        out[face] = made


def _mixed(bank: NDArray[np.uint8], which: Ints, shares: Floats, pixels: int) -> Floats:
    first, second = (bank[frame].reshape(pixels, 3).astype(np.float32) for frame in which)
    return np.asarray(first * shares[0] + second * shares[1], np.float32)
