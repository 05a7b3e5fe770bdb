"""A picture's look: its first plane as 8×8 mean values. Lossy coding hardly changes it; another picture has another."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np

from farm.media.frame import Plane
from farm.media.samples import make_of

_GRID = 8
_MOST_DIFFERENCE = 10


def look_of(plane: Plane, sample_format: str) -> str:
    """Hex of the means (0..255) of a luma, grey or green plane, row by row; fewer than 8×8 for tinier pictures."""
    height, width = plane.shape
    source: Any = np.ascontiguousarray(plane, dtype=np.float32)
    small = cv2.resize(source, (min(_GRID, width), min(_GRID, height)), interpolation=cv2.INTER_AREA)
    scale = 255.0 / ((1 << make_of(sample_format).depth) - 1)
    means: bytes = np.rint(small * scale).clip(0, 255).astype(np.uint8).tobytes()
    return means.hex()


def alike(one: str, other: str) -> bool:
    """Whether two looks can be of one picture, before and after lossy coding."""
    a = np.frombuffer(bytes.fromhex(one), np.uint8).astype(np.int16)
    b = np.frombuffer(bytes.fromhex(other), np.uint8).astype(np.int16)
    return a.shape == b.shape and int(np.abs(a - b).max(initial=0)) <= _MOST_DIFFERENCE
