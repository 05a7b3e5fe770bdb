"""Detectors of the catalogue beside the bundled one: SCRFD and RetinaFace (InsightFace), YOLO-face."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from farm.errors import RecipeError
from farm.faces.detect import Detection, turning
from farm.faces.neural_source import Loads
from farm.faces.neural_tensors import as_unit, to_tensor

Arrays = dict[str, NDArray[Any]]
Found = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]
"""Boxes (k, 4) x0 y0 x1 y1, five points (k, 5, 2) and scores (k,), in pixels of the letterboxed square."""


class CatalogueDetector:
    """Finds faces with a catalogue detector in a letterboxed square; same results as the bundled detector's class."""

    def __init__(self, models: Loads, name: str, *, side: int = 640, min_score: float | None = None) -> None:
        self._model = models.load(name)
        decode = self._model.spec.decode
        if decode is None or decode.kind not in ("scrfd", "yolo-face"):
            raise RecipeError(
                "It is no detector of the kinds scrfd or yolo-face.", where=f"model {name}", do="Choose another model."
            )
        self._kind, self._numbers = decode.kind, decode.parameters
        self._side = side
        self._min_score = float(decode.parameters["score_threshold"]) if min_score is None else min_score

    @property
    def sure(self) -> float:
        """The score from which a face is certain."""
        return (1 + self._min_score) / 2

    def __call__(self, picture: NDArray[np.uint8]) -> list[Detection]:
        """Faces of a BGR picture (h, w, 3) at any in-plane rotation, largest first; see `farm.faces.detect.turning`."""
        return turning(self.upright, picture, self.sure)

    def upright(self, picture: NDArray[np.uint8]) -> list[Detection]:
        """Faces of a BGR picture (h, w, 3) that stand upright, or nearly, largest first."""
        canvas, factor = letterbox(picture, self._side)
        given = self._model.spec.inputs[0]
        outputs = self._model.run_batch(**{given.name: to_tensor(as_unit(canvas[None, :, :, ::-1]), given)})
        if self._kind == "scrfd":
            boxes, points, scores = decode_scrfd(
                outputs, self._side, self._numbers["strides"], self._numbers["anchors_per_cell"], self._min_score
            )
        else:
            boxes, points, scores = decode_yolo_face(outputs["output"], self._min_score)
        kept = best_of_each(boxes, scores, float(self._numbers["nms_iou"]))
        found = [Detection(boxes[i] / factor, points[i] / factor, float(scores[i])) for i in kept]
        return sorted(found, key=lambda face: face.size, reverse=True)


def letterbox(picture: NDArray[np.uint8], side: int) -> tuple[NDArray[np.uint8], float]:
    """The picture shrunk to fit a square of `side` (never enlarged), at its top left, and the factor it shrank by."""
    height, width = picture.shape[:2]
    factor = min(1.0, side / max(height, width))
    size = (max(1, round(width * factor)), max(1, round(height * factor)))
    canvas = np.zeros((side, side, 3), np.uint8)
    canvas[: size[1], : size[0]] = cv2.resize(picture, size, interpolation=cv2.INTER_AREA) if factor < 1 else picture
    return canvas, factor


def decode_scrfd(outputs: Arrays, side: int, strides: list[int], anchors: int, min_score: float) -> Found:
    """Anchors lie at cell · stride, without half a cell; box = anchor -/+ d · stride, point = anchor + d · stride.

    Rows go through the cells line by line, with `anchors` rows a cell.
    """
    boxes, points, scores = [], [], []
    for stride in strides:
        score = outputs[f"score_{stride}"].reshape(-1).astype(np.float64)
        hit = score >= min_score
        cells = side // stride
        row, column = np.divmod(np.arange(cells * cells), cells)
        anchor = np.repeat(np.stack([column, row], 1) * stride, anchors, axis=0)[hit].astype(np.float64)
        distance = outputs[f"box_{stride}"].reshape(-1, 4)[hit].astype(np.float64) * stride
        offset = outputs[f"kps_{stride}"].reshape(-1, 5, 2)[hit].astype(np.float64) * stride
        boxes.append(np.hstack([anchor - distance[:, :2], anchor + distance[:, 2:]]))
        points.append(anchor[:, None] + offset)
        scores.append(score[hit])
    return np.concatenate(boxes), np.concatenate(points), np.concatenate(scores)


def decode_yolo_face(output: NDArray[Any], min_score: float) -> Found:
    """(1, 20, n): centre, size, score, then five times x, y, confidence, in pixels."""
    rows = output[0].T.astype(np.float64)
    rows = rows[rows[:, 4] > min_score]
    half = rows[:, 2:4] / 2
    boxes = np.hstack([rows[:, :2] - half, rows[:, :2] + half])
    return boxes, rows[:, 5:].reshape(-1, 5, 3)[:, :, :2], rows[:, 4]


def best_of_each(boxes: NDArray[np.float64], scores: NDArray[np.float64], max_overlap: float) -> list[int]:
    """Greedy non-maximum suppression: indexes of the kept boxes, best score first."""
    order = list(np.argsort(-scores, kind="stable"))
    kept: list[int] = []
    while order:
        best = int(order.pop(0))
        kept.append(best)
        order = [i for i in order if _overlap(boxes[best], boxes[i]) <= max_overlap]
    return kept


def _overlap(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Intersection over union of two boxes."""
    inside = np.clip(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), 0, None).prod()
    whole = (a[2:] - a[:2]).prod() + (b[2:] - b[:2]).prod() - inside
    return float(inside / whole) if whole > 0 else 0.0
