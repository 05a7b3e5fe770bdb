"""The 478 face landmarks: 468 mesh vertices and ten iris points."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from farm.faces.detect import Detection
from farm.faces.geometry import (
    Affine,
    apply,
    bounding_box,
    compose,
    crop_around,
    five_points,
    invert,
    scale_of,
    similarity,
)
from farm.faces.mesh import VERTICES, canonical_mesh
from farm.faces.network import Network

COUNT = 478
_CROP = 256
_MARGIN = 1.5
_MOVED, _GROWN, _TURNED = 0.1, 0.2, 0.17
"""Share of the crop, logarithm of its size and radians by which a first crop may be off without a second look."""
_ASTRAY_CROP = 0.4
"""Share of that from which a crop that was foretold for fine points is not near enough."""
_SURE, _DOUBTED, _HOPELESS = 0.9, 0.5, 0.05
"""Presence from which a face surely is one, from which it may be, and under which a second look makes it none."""
_ASTRAY = 0.35
"""Mean distance between the detector's five points and the landmarks', over the eyes' distance, from which they do not
show the same face: faces that both see well differ by .05 to .2, those read upside down by .7 and more."""


@dataclass(frozen=True, slots=True)
class Landmarks:
    """Attributes
    ----------
    points: float64[478, 3], x and y in pixels of the picture, z in the same scale (smaller is nearer).
    presence: 0..1, how sure the network is that the crop shows a face.
    """

    points: NDArray[np.float64]
    presence: float

    def moved(self, affine: Affine) -> Landmarks:
        return Landmarks(apply(affine, self.points), self.presence)


class Landmarker:
    """Runs the landmark network on a level crop, then again on the crop that its own points ask for.

    The second pass makes the points independent of how the detector's box happened to fall, which is most of the
    jitter of a single pass.
    """

    def __init__(self, network: Network) -> None:
        self._network = network

    def __call__(self, picture: NDArray[np.uint8], face: Detection, *, fine: bool = True) -> Landmarks:
        """Landmarks of a detected face in a BGR picture (h, w, 3).

        Detectors may find a face that lies on its side and be wrong about which way is up. Where the network doubts the
        level crop, it is shown the one that the detector's five points foretell: a hand over the face draws the level
        one away, and what it hides can look like a face upside down. Where neither shows the detector's face, the crop
        is turned upside down; where no face at all is seen, by each eighth.
        fine: always run the second pass; else only where the first crop was not about the one its points ask for.
        """
        if not fine and (quick := self._at_once(picture, face)) is not None:
            return quick
        eyes = face.five[1] - face.five[0]
        found = self._levelled(picture, face, _angle(eyes))
        if found.presence < _SURE:
            both = (found, self.refine(picture, self._run(picture, _foretold(face)).points))
            agreed = [marks for marks in both if marks.presence >= _DOUBTED and _agrees(marks, face)]
            if agreed:
                return max(agreed, key=lambda marks: marks.presence)
            eighths = range(1, 8) if found.presence < _DOUBTED else (4,)
            turned = [self._levelled(picture, face, _angle(eyes) + eighth * np.pi / 4) for eighth in eighths]
            found = max(found, *turned, key=lambda marks: marks.presence)
        return found

    def _at_once(self, picture: NDArray[np.uint8], face: Detection) -> Landmarks | None:
        """Landmarks by one pass on a crop that the detector's five points foretell; None where it was off its mark."""
        guess = _foretold(face)
        found = self._run(picture, guess)
        return found if found.presence >= _SURE and _off(found, guess) < 1 else None

    def follow(self, picture: NDArray[np.uint8], points: NDArray[np.float64]) -> Landmarks | None:
        """Landmarks of the face that should lie at `points` (478, >=2), by one pass where it does; None in doubt."""
        guess = crop_for(points)
        found = self._run(picture, guess)
        if found.presence >= _SURE and _off(found, guess) > _ASTRAY_CROP:
            found = self.refine(picture, found.points)
        return found if found.presence >= _SURE else None

    def _levelled(self, picture: NDArray[np.uint8], face: Detection, angle: float) -> Landmarks:
        centre = (face.box[:2] + face.box[2:]) / 2
        rough = self._run(picture, crop_around(centre, face.size * _MARGIN, angle, _CROP))
        return self.refine(picture, rough.points) if rough.presence >= _HOPELESS else rough

    def refine(self, picture: NDArray[np.uint8], points: NDArray[np.float64]) -> Landmarks:
        """Landmarks of the face that lies about where `points` (478, >=2) say."""
        return self._run(picture, crop_for(points))

    def _run(self, picture: NDArray[np.uint8], affine: Affine) -> Landmarks:
        crop = cv2.warpAffine(picture, affine, (_CROP, _CROP), flags=_sampling(affine), borderMode=cv2.BORDER_REPLICATE)
        tensor = np.ascontiguousarray(crop[:, :, ::-1], np.float32)[None] / np.float32(255)
        outputs = self._network.run(input_12=tensor)
        points = outputs["Identity"].reshape(COUNT, 3).astype(np.float64)
        logit = float(outputs["Identity_1"].reshape(-1)[0])
        return Landmarks(apply(invert(affine), points), 1 / (1 + float(np.exp(-logit))))


def _off(found: Landmarks, used: Affine) -> float:
    """How far the crop that the points ask for is from the one that was used: 1 is just too far for coarse points."""
    better = compose(crop_for(found.points), invert(used))
    moved = float(np.hypot(*(apply(better, np.full((1, 2), (_CROP - 1) / 2))[0] - (_CROP - 1) / 2))) / _CROP
    grown = abs(float(np.log(scale_of(better))))
    turned = abs(float(np.arctan2(better[1, 0], better[0, 0])))
    return max(moved / _MOVED, grown / _GROWN, turned / _TURNED)


def crop_for(points: NDArray[np.floating]) -> Affine:
    """The level crop that the network expects around a face with these points."""
    plane = np.asarray(points, np.float64)[:VERTICES, :2]
    angle = _angle((plane[263] + plane[362]) - (plane[33] + plane[133]))
    turned = apply(crop_around(plane.mean(axis=0), 1.0, angle, 1), plane)
    box = bounding_box(turned)
    centre = apply(invert(crop_around(plane.mean(axis=0), 1.0, angle, 1)), ((box[:2] + box[2:]) / 2)[None])[0]
    return crop_around(centre, float((box[2:] - box[:2]).max()) * _MARGIN, angle, _CROP)


def _foretold(face: Detection) -> Affine:
    """The crop of a face at rest whose five points are the detector's."""
    form = canonical_mesh().vertices[:, :2].astype(np.float64) * [1, -1]
    return crop_for(apply(similarity(five_points(form), face.five), form))


def _agrees(marks: Landmarks, face: Detection) -> bool:
    apart = np.hypot(*(five_points(marks.points) - face.five).T).mean()
    return bool(apart < _ASTRAY * np.hypot(*(face.five[1] - face.five[0])))


def _angle(vector: NDArray[np.float64]) -> float:
    return float(np.arctan2(vector[1], vector[0]))


def _sampling(affine: Affine) -> int:
    return cv2.INTER_AREA if scale_of(affine) < 0.5 else cv2.INTER_LINEAR
