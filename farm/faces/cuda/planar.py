"""Semi-planar frames as planar ones, on the device, so that memory gets what encoders take without another pass."""

from __future__ import annotations

import numpy as np

from farm.faces.cuda.surface import Samples, Surface


def planar(frames: Samples, surface: Surface, out: Samples) -> None:
    """The twin of the kernel: `frames` (count, rows, width) as luma, Cb, Cr one after the other, values in low bits.

    out: of the same shape and kind; `Surface.split` gives the planes of one of its frames.
    """
    out[:, : surface.height] = frames[:, : surface.height] >> surface.shift
    chroma = frames[:, surface.height :].reshape(len(frames), -1, 2) >> surface.shift
    out[:, surface.height :] = np.concatenate([chroma[..., 0], chroma[..., 1]], axis=1).reshape(
        len(frames), -1, surface.width
    )
