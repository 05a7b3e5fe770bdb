"""Faces in a picture: YuNet over a letterboxed square, at any in-plane rotation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from farm.faces.geometry import Affine, apply, invert
from farm.faces.network import Network

SIDE = 640
_STRIDES = (8, 16, 32)
_MIN_SCORE = 0.6
SURE_SCORE = 0.88
_MAX_OVERLAP = 0.3


@dataclass(frozen=True, slots=True)
class Detection:
    """One face.

    Attributes
    ----------
    box: float64[4], x0, y0, x1, y1 in pixels of the picture.
    five: float64[5, 2], right eye, left eye, nose tip, right and left mouth corner (of the person).
    score: 0..1, the square root of class times object score.
    """

    box: NDArray[np.float64]
    five: NDArray[np.float64]
    score: float

    @property
    def size(self) -> float:
        """The longer side of the box."""
        return float(max(self.box[2] - self.box[0], self.box[3] - self.box[1]))


Find = Callable[[NDArray[np.uint8]], list[Detection]]
"""Finds the faces of a BGR picture (h, w, 3) that stand upright, or nearly."""


class Detector:
    """Finds faces from about 16 pixels (of the letterboxed 640) up.

    YuNet's decoding, from the model's public description: cell (gx, gy) of stride s holds score √(cls·obj), centre
    ((gx + b0)s, (gy + b1)s), size (e^b2 s, e^b3 s) and points ((g + k)s); overlap over .3 is one face.
    """

    def __init__(self, network: Network, *, min_score: float = _MIN_SCORE) -> None:
        self._network = network
        self._min_score = min_score

    @property
    def sure(self) -> float:
        """The score from which a face is certain."""
        return max(SURE_SCORE, self._min_score)

    def __call__(self, picture: NDArray[np.uint8]) -> list[Detection]:
        """Faces of a BGR picture (h, w, 3) at any in-plane rotation, largest first; see `turning`."""
        return turning(self.upright, picture, self.sure)

    def upright(self, picture: NDArray[np.uint8]) -> list[Detection]:
        """Faces of a BGR picture (h, w, 3) that stand upright, or nearly, largest first."""
        height, width = picture.shape[:2]
        factor = SIDE / max(height, width)
        fitted = (max(1, round(width * factor)), max(1, round(height * factor)))
        mode = cv2.INTER_AREA if factor < 1 else cv2.INTER_LINEAR
        tensor = np.zeros((1, 3, SIDE, SIDE), np.float32)
        small = cv2.resize(picture, fitted, interpolation=mode)
        for channel, plane in enumerate(cv2.split(small)):
            tensor[0, channel, : fitted[1], : fitted[0]] = plane
        scale = np.array([width / fitted[0], height / fitted[1]])
        outputs = self._network.run(input=tensor)
        box, five, score = decode(outputs, self._min_score)
        kept = suppress(box, score)
        faces = [Detection(box[i] * np.tile(scale, 2), five[i] * scale, float(score[i])) for i in kept]
        return sorted(faces, key=lambda face: -face.size)


def turning(find: Find, picture: NDArray[np.uint8], sure: float) -> list[Detection]:
    """Faces at any in-plane rotation, where all of a picture's faces stand about the same way, largest first.

    A picture in which nothing certain is seen upright is looked at again turned by quarters; the surest view counts.
    """
    best = find(picture)
    if _confidence(best) >= sure:
        return best
    for quarters in (1, 3, 2):
        found = _turned_faces(find, picture, quarters)
        if _confidence(found) > _confidence(best):
            best = found
    return best


def all_turns(find: Find, picture: NDArray[np.uint8]) -> list[Detection]:
    """Faces at any in-plane rotation, each its own: eight looks at every picture, largest first.

    Small faces are found up to some 30° from upright, so that quarters alone would miss those that lean between.
    """
    faces = find(picture)
    for quarters in (1, 3, 2):
        faces += _turned_faces(find, picture, quarters)
    for degrees in (45, 135, 225, 315):
        leaning, back = _leaning(picture, degrees)
        faces += [_moved(face, back) for face in find(leaning)]
    return distinct(faces)


def distinct(faces: list[Detection]) -> list[Detection]:
    """The surest of each set of overlapping faces, largest first."""
    if not faces:
        return []
    kept = suppress(np.array([face.box for face in faces]), np.array([face.score for face in faces]))
    return sorted((faces[index] for index in kept), key=lambda face: -face.size)


def _turned_faces(find: Find, picture: NDArray[np.uint8], quarters: int) -> list[Detection]:
    turned, back = _turned(picture, quarters)
    return [_moved(face, back) for face in find(turned)]


def _confidence(faces: list[Detection]) -> float:
    return max((face.score for face in faces), default=0.0)


def decode(
    outputs: dict[str, NDArray[np.float32]], min_score: float, across: int = SIDE
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Boxes (n, 4), points (n, 5, 2) and scores (n,) above `min_score`, in pixels of a picture of `across` columns."""
    boxes, points, scores = [], [], []
    for stride in _STRIDES:
        cells = across // stride
        cls, obj = (np.clip(outputs[f"{kind}_{stride}"].reshape(-1), 0, 1) for kind in ("cls", "obj"))
        score = np.sqrt(cls * obj).astype(np.float64)
        hit = np.flatnonzero(score > min_score)
        cell = np.stack([hit % cells, hit // cells], axis=1).astype(np.float64)
        shape = outputs[f"bbox_{stride}"].reshape(-1, 4)[hit].astype(np.float64)
        centre, half = (cell + shape[:, :2]) * stride, np.exp(shape[:, 2:]) * stride / 2
        boxes.append(np.hstack([centre - half, centre + half]))
        offset = outputs[f"kps_{stride}"].reshape(-1, 5, 2)[hit].astype(np.float64)
        points.append((cell[:, None] + offset) * stride)
        scores.append(score[hit])
    return np.concatenate(boxes), np.concatenate(points), np.concatenate(scores)


def overlap(box: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.float64]:
    """Intersection over union of one box (4,) with others (n, 4)."""
    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    shared = np.prod(np.clip(high - low, 0, None), axis=1)
    area = np.prod(others[:, 2:] - others[:, :2], axis=1) + np.prod(box[2:] - box[:2])
    return np.asarray(shared / np.maximum(area - shared, 1e-9))


def suppress(box: NDArray[np.float64], score: NDArray[np.float64]) -> list[int]:
    """Indexes of the boxes (n, 4) that overlap no better one, best first."""
    order = [int(i) for i in np.argsort(-score, kind="stable")]
    kept: list[int] = []
    for index in order:
        if not kept or overlap(box[index], box[kept]).max() <= _MAX_OVERLAP:
            kept.append(index)
    return kept


def _turned(picture: NDArray[np.uint8], quarters: int) -> tuple[NDArray[np.uint8], Affine]:
    """The picture turned counter-clockwise by quarters, and the map of its pixels back to the picture's."""
    height, width = picture.shape[:2]
    forward = {
        1: np.array([[0.0, 1, 0], [-1, 0, width - 1]]),
        2: np.array([[-1.0, 0, width - 1], [0, -1, height - 1]]),
        3: np.array([[0.0, -1, height - 1], [1, 0, 0]]),
    }[quarters]
    return np.ascontiguousarray(np.rot90(picture, quarters)), invert(forward)


def _leaning(picture: NDArray[np.uint8], degrees: float) -> tuple[NDArray[np.uint8], Affine]:
    """The whole picture turned counter-clockwise by degrees, and the map of its pixels back to the picture's."""
    height, width = picture.shape[:2]
    cos, sin = abs(np.cos(np.radians(degrees))), abs(np.sin(np.radians(degrees)))
    across, down = int(np.ceil(width * cos + height * sin)), int(np.ceil(width * sin + height * cos))
    forward = cv2.getRotationMatrix2D(((width - 1) / 2, (height - 1) / 2), degrees, 1.0)
    forward[:, 2] += [(across - width) / 2, (down - height) / 2]
    # Edges are repeated: the sharp corners of a dark surround look like faces to some detectors.
    turned = cv2.warpAffine(picture, forward, (across, down), borderMode=cv2.BORDER_REPLICATE)
    return np.asarray(turned, np.uint8), invert(np.asarray(forward, np.float64))


def _moved(face: Detection, affine: Affine) -> Detection:
    """The face by a turn without a change of scale; its box has the same area, whatever the angle."""
    (centre,) = apply(affine, (face.box[:2] + face.box[2:])[None] / 2)
    half = (face.box[2:] - face.box[:2]) / 2
    turned = np.abs(affine[:, :2]) @ half
    turned = turned * np.sqrt(half.prod() / turned.prod())
    return Detection(np.concatenate([centre - turned, centre + turned]), apply(affine, face.five), face.score)
