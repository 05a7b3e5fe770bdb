"""Hands in front of a face: palms found around it, then the fingers' points, then their outline."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import cv2
import numpy as np
from numpy.typing import NDArray

from farm.faces.geometry import Affine, apply, bounding_box, compose, crop_around, invert, scale_of
from farm.faces.mesh import VERTICES
from farm.faces.network import Network

_PALM_CROP = 192
HAND_CROP = 224
_REACH = 2.2
PALM_LOGIT = float(np.log(0.2 / 0.8))
"""What the palm detector says of a palm with a score of .2, the least that counts."""
_HAND_SCORE = 0.4
_FINGERS = ((1, 2, 3, 4), (5, 6, 7, 8), (9, 10, 11, 12), (13, 14, 15, 16), (17, 18, 19, 20))
_PALM = (0, 1, 2, 5, 9, 13, 17)
_ROUNDED = 1.25
_GAP = 0.5


@dataclass(frozen=True, slots=True)
class Hand:
    """Attributes
    ----------
    points: float64[21, 2], pixels: wrist, then four points a finger from thumb to little finger.
    score: 0..1, how sure the network is that this is a hand.
    crop: the map from the picture to the network's square in which it was seen so.
    """

    points: NDArray[np.float64]
    score: float
    crop: Affine

    def moved(self, affine: Affine) -> Hand:
        return Hand(apply(affine, self.points), self.score, compose(self.crop, invert(affine)))


class HandFinder:
    """Finds hands within about a face's width around a face.

    Palm decoding and the hand's crop follow the networks' public model cards: anchors at cell centres (2 a cell of 8
    pixels, 6 a cell of 16), offsets in pixels; the crop is 2.6 palms wide, half a palm towards the fingers, fingers up.
    """

    def __init__(self, palms: Network, hands: Network) -> None:
        self._palms = palms
        self._hands = hands

    def __call__(self, picture: NDArray[np.uint8], face: NDArray[np.floating]) -> list[Hand]:
        """Hands near the face with landmarks `face` (478, >=2) in a BGR picture (h, w, 3)."""
        affine = palm_crop(face)
        outputs = self._palms.run(input_1=_tensor(picture, affine, _PALM_CROP))
        squares = hand_crops(outputs["Identity_1"], outputs["Identity"], affine)
        return unlike(hand for square in squares if (hand := self._look(picture, square)) is not None)

    def follow(self, picture: NDArray[np.uint8], hand: Hand) -> Hand | None:
        """The same hand in a picture close in time, looked for in the same square; None where it is not.

        A fist can be read in more than one way. The same square gives the same reading, so that what one frame shows
        well helps its neighbours.
        """
        return self._look(picture, hand.crop)

    def _look(self, picture: NDArray[np.uint8], affine: Affine) -> Hand | None:
        return self.within(_tensor(picture, affine, HAND_CROP), affine)

    def within(self, square: NDArray[np.float32], affine: Affine) -> Hand | None:
        """The hand in the square of `affine`, cut out: float32[1, 224, 224, 3], RGB 0..1; None where there is none."""
        outputs = self._hands.run(input_1=square)
        return hand_seen(outputs["Identity_1"], outputs["Identity"], affine)


def hand_crops(logits: NDArray[np.floating], rows: NDArray[np.floating], affine: Affine) -> list[Affine]:
    """The maps to the squares in which a hand may be, of the palm detector's answer in the square of `affine`.

    logits, rows: its two outputs, of one picture. At most two, the surest palm first.
    """
    logit, row = logits.reshape(-1), rows.reshape(-1, 18).astype(np.float64)
    back, scale = invert(affine), scale_of(affine)
    palms: list[NDArray[np.float64]] = []
    squares: list[Affine] = []
    for index in np.argsort(-logit, kind="stable")[:12]:
        if logit[index] < PALM_LOGIT or len(palms) == 2:
            break
        points = apply(back, np.vstack([row[index, :2], row[index, 4:].reshape(7, 2)]) + _anchors()[index])
        size = float(row[index, 2:4].max()) / scale
        if all(np.hypot(*(points[0] - other)) > size / 2 for other in palms):
            palms.append(points[0])
            squares += _fingers(size, points[0], points[1:])
    return squares


def _fingers(size: float, centre: NDArray[np.float64], seven: NDArray[np.float64]) -> list[Affine]:
    """The square around the fingers of a palm; none where it has no direction."""
    up = seven[2] - seven[0]
    length = float(np.hypot(*up))
    if length < 1:
        return []
    angle = float(np.arctan2(up[1], up[0])) + np.pi / 2
    return [crop_around(centre + up / length * size / 2, size * 2.6, angle, HAND_CROP)]


def hand_seen(score: NDArray[np.floating], points: NDArray[np.floating], affine: Affine) -> Hand | None:
    """The hand in the square of `affine`, by the hand network's two outputs of one picture; None where it sees none."""
    sure = float(score.reshape(-1)[0])
    if sure < _HAND_SCORE:
        return None
    plane = points.reshape(21, 3)[:, :2].astype(np.float64)
    return Hand(apply(invert(affine), plane), sure, affine)


def unlike(hands: Iterable[Hand]) -> list[Hand]:
    """Those of them that are not another reading of one before."""
    found: list[Hand] = []
    for hand in hands:
        if not any(_same(hand, other) for other in found):
            found.append(hand)
    return found


def palm_crop(face: NDArray[np.floating]) -> Affine:
    """The map to the palm detector's square around the face with these landmarks (478, >=2)."""
    box = bounding_box(face[:VERTICES])
    return crop_around((box[:2] + box[2:]) / 2, float((box[2:] - box[:2]).max()) * _REACH, 0.0, _PALM_CROP)


def outline(hand: Hand, rgb: NDArray[np.float32], origin: NDArray[np.floating]) -> NDArray[np.float32]:
    """The hand's area (h, w), 0..1, in a region `rgb` (h, w, 3; 0..1) whose pixel (0, 0) is the frame's `origin`.

    Fingers are drawn a little wider than the knuckles are apart, and longer for the nails. What is much darker than the
    hand in its middle (a brow, hair) is not the hand, but the gap between two fingers is: a sliver of a new face in it
    would be lit as if there were no hand. Gaps are those of fingers as wide as the knuckles are apart: what the drawn
    ones hold of the skin above and below a brow would close over it.
    """
    points = hand.points - np.asarray(origin, np.float64)
    knuckles = points[[5, 9, 13, 17]]
    reach = float(np.hypot(*(points[0] - points[9])))
    width = max(float(np.hypot(*np.diff(knuckles, axis=0).T).mean()), 0.22 * reach, 2.0)
    area = _drawn(points, rgb.shape[:2], _ROUNDED * width)
    light = np.asarray(cv2.cvtColor(np.clip(rgb, 0, 1), cv2.COLOR_RGB2LAB), np.float32)[..., 0]
    sample = light[_drawn(points, rgb.shape[:2], width / 3) > 0.5]
    if len(sample) < 8:
        return area
    middle = float(np.median(sample))
    spread = 1.48 * float(np.median(np.abs(sample - middle)))
    dark = middle - max(16.0, 3.5 * spread)
    lit = np.asarray(np.clip((light - dark + 6) / 6, 0, 1), np.float32)
    slim = _drawn(points, rgb.shape[:2], width) * lit
    radius = max(1, round((_GAP + (_ROUNDED - 1) / 2) * width))
    disc = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * radius + 1, 2 * radius + 1))
    return np.asarray(np.maximum(area * lit, cv2.morphologyEx(slim, cv2.MORPH_CLOSE, disc)), np.float32)


def _drawn(points: NDArray[np.float64], shape: tuple[int, ...], width: float) -> NDArray[np.float32]:
    canvas = np.zeros(shape, np.uint8)
    fixed = np.round(points * 16).astype(np.int32)
    thick = max(1, round(width))
    for finger in _FINGERS:
        tip = points[finger[-1]] + 0.3 * (points[finger[-1]] - points[finger[-2]])
        path = np.vstack([fixed[list(finger)], np.round(tip * 16).astype(np.int32)])
        cv2.polylines(canvas, [path], False, 255, thick, cv2.LINE_AA, 4)
    palm = np.asarray(cv2.convexHull(fixed[list(_PALM)].reshape(-1, 1, 2)), np.int32)
    cv2.fillPoly(canvas, [palm], 255, cv2.LINE_AA, 4)
    cv2.polylines(canvas, [palm], True, 255, thick, cv2.LINE_AA, 4)
    return canvas.astype(np.float32) / np.float32(255)


@cache
def _anchors() -> NDArray[np.float64]:
    centres = []
    for cells, each in ((24, 2), (12, 6)):
        row, column = np.mgrid[:cells, :cells]
        middle = (np.stack([column, row], axis=-1).reshape(-1, 2) + 0.5) / cells * _PALM_CROP
        centres.append(np.repeat(middle, each, axis=0))
    return np.concatenate(centres)


def _tensor(picture: NDArray[np.uint8], affine: Affine, size: int) -> NDArray[np.float32]:
    crop = cv2.warpAffine(picture, affine, (size, size))
    return np.ascontiguousarray(crop[:, :, ::-1], np.float32)[None] / np.float32(255)


def _same(a: Hand, b: Hand) -> bool:
    return float(np.hypot(*(a.points - b.points).T).mean()) < 0.3 * float(np.hypot(*(a.points[0] - a.points[9])))
