"""How sharp a face is, whatever its size and its light: one too blurred is not given another's features."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from farm.faces.texture import smoothstep

_SIDE, _FACE = 54, 100
"""The crop is compared at this many pixels; a face is about `_FACE` of the crop's 112 high."""
_SIGMA = 1.5
_DARK = 8.0


def sharpness(crop: NDArray[np.float32], size: float) -> float:
    """Spread of the finest detail relative to the brightness, inside a face aligned for the recogniser.

    Parameters
    ----------
    crop: grey (112, 112), 0..255. size: pixels that the face had where it was cut out of; a small one is compared with
        the pixels it has, or its enlargement would count as blur.

    Portraits and films in focus measure .07 to .2, whatever their size; blurred by 3 % of the face .03 to .05, by 6 %
    .01 to .02, and beyond that detectors find no face.
    """
    side = max(8, round(min(_SIDE, len(crop) * size / _FACE)))
    grey = np.asarray(cv2.resize(crop, (side, side), interpolation=cv2.INTER_AREA), np.float32)
    fine = grey - cv2.GaussianBlur(grey, (0, 0), _SIGMA)
    inside = np.s_[side // 4 : -(side // 16) or None, side // 5 : -(side // 5)]
    return float(fine[inside].std() / (grey[inside].mean() + _DARK))


def clear_enough(found: float | None, least: float) -> float:
    """Strength 0..1 by sharpness: none up to `least`, full from twice that on, and where it was not measured."""
    return 1.0 if found is None or least == 0 else float(smoothstep(np.array(found), least, 2 * least))
