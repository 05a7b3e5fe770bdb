"""A time that is burnt into the picture as black and white blocks, and survives encoding: for measuring delays.

Forty bits of milliseconds, most significant first, then eight bits that sum the five bytes before; blocks of 8 × 8
pixels in one row at the top left of the upright picture.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from farm.media.frame import Frame

BLOCK = 8
BITS = 48
WIDTH = BLOCK * BITS
_BLACK, _WHITE = 16, 235


def fits(width: int, height: int) -> bool:
    """Whether a picture has room for a stamp."""
    return width >= WIDTH and height >= BLOCK


def burn(frame: Frame, milliseconds: int) -> None:
    """Write `milliseconds` (0 to 2^40 - 1) into the luma of an 8-bit frame, in place."""
    body = (milliseconds % (1 << 40)).to_bytes(5, "big")
    bits = np.unpackbits(np.frombuffer(body + bytes([sum(body) % 256]), np.uint8))
    row = np.where(bits.repeat(BLOCK), _WHITE, _BLACK).astype(np.uint8)
    frame.planes[0][:BLOCK, :WIDTH] = row


def read(luma: NDArray[np.uint8]) -> int | None:
    """The milliseconds in a picture's luma (h, w); None where there is no stamp, or a damaged one."""
    if not fits(luma.shape[1], luma.shape[0]):
        return None
    means = luma[:BLOCK, :WIDTH].astype(np.float32).reshape(BLOCK, BITS, BLOCK).mean(axis=(0, 2))
    body = np.packbits(means > (_BLACK + _WHITE) / 2).tobytes()
    return int.from_bytes(body[:5], "big") if sum(body[:5]) % 256 == body[5] else None
