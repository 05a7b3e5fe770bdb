"""Alignment templates: where five face points lie in an aligned crop of side 1.

Rows are left eye, right eye, nose tip, left mouth corner, right mouth corner, as seen in the picture; columns x, y.
arcface_112_v2 is InsightFace's five points over 112; arcface_128 the same pixels with x + 8, over 128.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from farm.errors import RecipeError, unknown

_POINTS: dict[str, tuple[tuple[float, float], ...]] = {
    "arcface_112_v1": (
        (0.35473214, 0.45658929),
        (0.64526786, 0.45658929),
        (0.5, 0.61154464),
        (0.37913393, 0.776875),
        (0.62086607, 0.776875),
    ),
    "arcface_112_v2": (
        (0.34191607, 0.46157411),
        (0.65653393, 0.45983393),
        (0.500225, 0.64050536),
        (0.37097589, 0.82469196),
        (0.63151696, 0.82325089),
    ),
    "arcface_128": (
        (0.36167656, 0.40387734),
        (0.63696719, 0.40235469),
        (0.50019687, 0.56044219),
        (0.38710391, 0.72160547),
        (0.61507734, 0.72034453),
    ),
    "dfl_whole_face": (
        (0.35342266, 0.39285716),
        (0.62797622, 0.39285716),
        (0.48660713, 0.5401786),
        (0.38839287, 0.68750011),
        (0.59821427, 0.68750011),
    ),
    "ffhq_512": (
        (0.37691676, 0.46864664),
        (0.62285697, 0.46912813),
        (0.50123859, 0.61331904),
        (0.39308822, 0.725411),
        (0.61150205, 0.72490465),
    ),
    "mtcnn_512": (
        (0.36562865, 0.46733799),
        (0.63305391, 0.46585885),
        (0.50019127, 0.61942959),
        (0.39032951, 0.77598822),
        (0.62178945, 0.77476328),
    ),
    "styleganex_384": (
        (0.42353745, 0.52289879),
        (0.57725008, 0.52319972),
        (0.50123859, 0.61331904),
        (0.43364461, 0.68337652),
        (0.57015325, 0.68306005),
    ),
}

NAMES = frozenset(_POINTS)


def template(name: str, size: float = 1.0) -> NDArray[np.float64]:
    """The five points (5, 2) of template `name` in pixels of a crop of side `size`; RecipeError for an unknown name."""
    try:
        return np.array(_POINTS[name], dtype=np.float64) * size
    except KeyError:
        raise unknown(RecipeError, "alignment template", name, sorted(NAMES), where="model contract") from None
