"""Landmarks where a hand draws the detector's box away: the face is read upright, where the five points are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from farm.faces.detect import Detection
from farm.faces.geometry import apply, five_points, similarity
from farm.faces.landmarks import COUNT, Landmarker
from farm.faces.mesh import canonical_mesh

SIDE, CROP = 256, 256
FACE = np.array([128.0, 120.0])
CORNERS = np.array([[0, 0], [CROP - 1, 0], [0, CROP - 1]])


class Seeing:
    """A landmark network that knows where its crop lies: the picture's colours are its coordinates.

    It is sure of the face only in a crop around it; of what lies beside it, it sees a face where it is shown upside
    down. `trusts_turned` is how sure it is then.
    """

    def __init__(self, trusts_turned: float) -> None:
        self._turned = trusts_turned

    def run(self, **inputs: NDArray[np.float32]) -> dict[str, NDArray[np.float32]]:
        crop = inputs["input_12"][0] * 255
        corners = np.array([crop[y, x, [2, 1]] for x, y in CORNERS])
        to_crop = similarity(corners, CORNERS)
        middle = corners[1:].mean(axis=0)
        upright = corners[1, 0] > corners[0, 0]
        if not upright:
            return self._answer(apply(similarity(_form(), _form() * 20 + CROP / 2), _form()), self._turned)
        if np.hypot(*(middle - FACE)) < 12:
            return self._answer(apply(to_crop, _placed()), 0.97)
        return self._answer(apply(to_crop, _placed() + middle - FACE), 0.3)

    @staticmethod
    def _answer(plane: NDArray[np.float64], presence: float) -> dict[str, NDArray[np.float32]]:
        points = np.zeros((COUNT, 3), np.float32)
        points[: len(plane), :2] = plane
        return {"Identity": points, "Identity_1": np.array([np.log(presence / (1 - presence))], np.float32)}


def _form() -> NDArray[np.float64]:
    return canonical_mesh().vertices[:, :2].astype(np.float64) * [1, -1]


def _placed() -> NDArray[np.float64]:
    """The face at rest around FACE, about 70 pixels wide."""
    return _form() * 4.5 + FACE - (_form() * 4.5).mean(axis=0)


def _picture() -> NDArray[np.uint8]:
    row, column = np.mgrid[:SIDE, :SIDE].astype(np.uint8)
    return np.dstack([column, row, np.zeros_like(row)])


def _detection(box_off: float) -> Detection:
    low, high = _placed().min(axis=0) + box_off, _placed().max(axis=0) + box_off
    return Detection(np.concatenate([low, high]), five_points(_placed()), 0.9)


def test_a_box_drawn_away_by_a_hand_does_not_turn_the_face_upside_down() -> None:
    marks = Landmarker(Seeing(0.984))(_picture(), _detection(25.0))
    assert marks.presence > 0.9
    assert np.abs(five_points(marks.points) - five_points(_placed())).max() < 1


def test_a_box_drawn_away_does_not_lose_the_face() -> None:
    marks = Landmarker(Seeing(0.01))(_picture(), _detection(25.0))
    assert marks.presence > 0.9
