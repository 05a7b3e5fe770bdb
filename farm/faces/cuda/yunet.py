"""YuNet's outputs to faces; the twin is the decoder of the CPU path itself."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from farm.faces.cuda.surface import Floats
from farm.faces.detect import decode, suppress

MOST = 32
FIELDS = 15
STRIDES = (8, 16, 32)
HEADS = tuple(f"{kind}_{stride}" for kind in ("cls", "obj", "bbox", "kps") for stride in STRIDES)
"""The order in which kernels and twins take the outputs."""
MOST_OVERLAP = 0.3


def cells_of(fine: int) -> int:
    """How many cells a picture has in all, of which `fine` have a stride of 8 pixels."""
    return fine + fine // 4 + fine // 16


def faces(heads: Sequence[NDArray[np.float32]], least: float, across: int) -> tuple[NDArray[np.int32], Floats]:
    """How many faces each frame shows (which may be more than `MOST`), and (frames, MOST, 15): score, box, five points.

    across: columns of the picture that the detector was given. Best first, in pixels of that picture.
    """
    frames = len(heads[0])
    count, out = np.zeros(frames, np.int32), np.zeros((frames, MOST, FIELDS), np.float32)
    for frame in range(frames):
        outputs = {name: head[frame] for name, head in zip(HEADS, heads, strict=True)}
        box, five, score = decode(outputs, least, across)
        kept = suppress(box, score)
        count[frame] = len(kept)
        for place, index in enumerate(kept[:MOST]):
            out[frame, place] = np.concatenate([[score[index]], box[index], five[index].ravel()])
    return count, out
