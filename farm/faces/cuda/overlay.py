"""The visible label burnt into semi-planar frames: the very sums of `farm.media.colour.Blend`, bit for bit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from farm.faces.cuda.surface import Floats, Samples, Surface
from farm.media.colour import Blend, Box

Span = Box


@dataclass(frozen=True)
class Overlay:
    """A fixed picture for one surface.

    luma, chroma: where, in samples of that plane. values, weight: float32 of the luma box. cb, cr, kept: float32 of the
    chroma span. top: the greatest sample value.
    """

    luma: Span
    values: Floats
    weight: Floats
    chroma: Span
    cb: Floats
    cr: Floats
    kept: Floats
    top: int

    @classmethod
    def of(cls, blends: Sequence[Blend]) -> Overlay:
        """From what `blends_of` says for planar 4:2:0 frames."""
        luma, cb, cr = blends
        parts = (luma.values, luma.weight, cb.values, cr.values, cb.weight)
        values, weight, blue, red, kept = (np.ascontiguousarray(part, np.float32) for part in parts)
        return cls(luma.span, values, weight, cb.span, blue, red, kept, luma.top)


def overlay(frames: Samples, surface: Surface, count: int, given: Overlay) -> None:
    """The twin of the kernels, in place, on the first `count` of `frames` (batch, rows, width)."""
    shift, top = surface.shift, given.top
    left, upper, right, lower = given.luma
    luma = frames[:count, upper:lower, left:right]
    old = (luma >> shift).astype(np.float32)
    luma[...] = _stored((given.values - old) * given.weight + old, top, frames.dtype) << shift
    left, upper, right, lower = given.chroma
    pairs = frames[:count, surface.height :].reshape(count, surface.height // 2, surface.width // 2, 2)
    for channel, values in enumerate((given.cb, given.cr)):
        target = pairs[:, upper:lower, left:right, channel]
        old = (target >> shift).astype(np.float32)
        target[...] = _stored(old * given.kept + values, top, frames.dtype) << shift


def _stored(values: Floats, top: int, dtype: np.dtype[np.generic]) -> Samples:
    return np.clip(np.rint(values), 0, top).astype(dtype)
