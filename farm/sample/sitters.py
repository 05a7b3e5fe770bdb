"""The heads on which the product tries identities on before it knows a plate: the two portraits in several poses."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from farm.sample.bust import Bust, Pose
from farm.sample.expression import Expression
from farm.sample.portrait import IDENTITIES, load_portrait

SIDE = 224
_FACE = 108
_GREY = 96
_LIGHT = np.array([0.1, -0.06, 0.0])
_HELD = (
    (17, -4, 5, Expression(jaw=0.35)),
    (5, 11, 2, Expression(lid_left=0.5, lid_right=0.5)),
)
"""Degrees of yaw, pitch and roll, and the expression."""


def sitters() -> dict[str, NDArray[np.uint8]]:
    """Pictures by file name, uint8 (224, 224, 3) BGR: before grey, the face about half as wide as the picture."""
    return {
        f"{identity}-{number}.jpg": picture
        for identity in IDENTITIES
        for number, picture in enumerate(_drawn(identity))
    }


def _drawn(identity: str) -> list[NDArray[np.uint8]]:
    portrait = load_portrait(identity)
    scale = _FACE / portrait.face_width
    bust = Bust(portrait, scale)
    made: list[NDArray[np.uint8]] = []
    for yaw, pitch, roll, expression in _HELD:
        picture = np.full((SIDE, SIDE, 3), _GREY, np.uint8)
        pose = Pose(SIDE / 2, 0.62 * SIDE, scale, yaw, pitch, roll)
        bust.draw(picture, pose, expression, _LIGHT)
        made.append(np.asarray(cv2.GaussianBlur(picture, (0, 0), 0.4), np.uint8))
    return made
