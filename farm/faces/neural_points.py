"""68-point landmarkers of the catalogue: 2D-FAN, Peppa Wutz, and the one that guesses 68 points from five."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from farm.errors import RecipeError
from farm.faces.geometry import Affine, apply, invert, similarity
from farm.faces.neural_source import Loads
from farm.faces.neural_tensors import as_unit, to_tensor
from farm.inference.templates import template

Arrays = dict[str, NDArray[Any]]

_SIDE = 256
_BOX_SIDE = 195
_DARK = 30
"""Mean lightness (0..100) under which local contrast is raised before looking."""


@dataclass(frozen=True, slots=True)
class Points68:
    """points: float64 (68, 2) in pixels of the picture. score: 0..1; 1 for points made from five."""

    points: NDArray[np.float64]
    score: float


class Landmarker68:
    def __init__(self, models: Loads, name: str) -> None:
        self._model = models.load(name)
        decode = self._model.spec.decode
        if decode is None or decode.kind not in ("heatmap-points", "grid-points", "template-points"):
            raise RecipeError("It gives no 68 points.", where=f"model {name}", do="Choose another landmarker.")
        self._kind, self._numbers = decode.kind, decode.parameters

    def __call__(self, picture: NDArray[np.uint8], box: NDArray[np.float64], five: NDArray[np.floating]) -> Points68:
        """Points of the face with `box` (x0, y0, x1, y1) and `five` points in a BGR picture (h, w, 3)."""
        if self._kind == "template-points":
            return self._from_five(five)
        affine = crop_of_box(box)
        crop = np.asarray(cv2.warpAffine(picture, affine, (_SIDE, _SIDE), flags=cv2.INTER_AREA), np.uint8)
        given = self._model.spec.inputs[0]
        tensor = to_tensor(as_unit(brightened(crop)[None, :, :, ::-1]), given)
        inside, score = decode_points(self._kind, self._model.run_batch(**{given.name: tensor}), self._numbers["grid"])
        return Points68(apply(invert(affine), inside), score)

    def _from_five(self, five: NDArray[np.floating]) -> Points68:
        affine = similarity(five, template(self._numbers["template"], self._numbers["size"]))
        given = self._model.spec.inputs[0]
        outputs = self._model.run_batch(**{given.name: apply(affine, five)[None].astype(np.float32)})
        return Points68(apply(invert(affine), outputs["points"][0]), 1.0)


def crop_of_box(box: NDArray[np.float64]) -> Affine:
    """Picture to a 256 px crop in which the longer side of the box has 195 px and its centre is in the middle."""
    factor = _BOX_SIDE / float(max(box[2] - box[0], box[3] - box[1]))
    centre = (box[:2] + box[2:]) / 2
    shift = _SIDE / 2 - centre * factor
    return np.array([[factor, 0, shift[0]], [0, factor, shift[1]]])


def brightened(crop: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """A dark BGR crop with its local contrast raised (CLAHE, clip 2, on lightness); others as they are."""
    lab = cv2.cvtColor(crop, cv2.COLOR_BGR2Lab)
    if float(lab[..., 0].mean()) * 100 / 255 >= _DARK:
        return crop
    lab[..., 0] = cv2.createCLAHE(clipLimit=2).apply(np.ascontiguousarray(lab[..., 0]))
    return np.asarray(cv2.cvtColor(lab, cv2.COLOR_Lab2BGR), np.uint8)


def decode_points(kind: str, outputs: Arrays, grid: int) -> tuple[NDArray[np.float64], float]:
    """Points (68, 2) in pixels of the 256 px crop, and how sure the network is, 0..1.

    "heatmap-points": the score is the mean of the 68 maps' maxima, .9 counting as sure; "grid-points": the mean of the
    third column, .95 counting as sure.
    """
    points = outputs["points"][0].astype(np.float64)
    if kind == "heatmap-points":
        score = float(outputs["heatmaps"][0].max(axis=(1, 2)).mean()) / 0.9
    else:
        score = float(points[:, 2].mean()) / 0.95
    return points[:, :2] / grid * _SIDE, float(np.clip(score, 0, 1))
