"""What a face does: how the head is held, the 52 blendshapes, and where the eyes look."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from farm.faces.geometry import head_pose
from farm.faces.network import EXPRESSIONS, Network, Networks

# The points that the blendshape network reads, in its order (MediaPipe's face blendshapes graph).
# fmt: off
POINTS = (
    0, 1, 4, 5, 6, 7, 8, 10, 13, 14, 17, 21, 33, 37, 39, 40, 46, 52, 53, 54, 55, 58, 61, 63, 65, 66, 67, 70, 78, 80,
    81, 82, 84, 87, 88, 91, 93, 95, 103, 105, 107, 109, 127, 132, 133, 136, 144, 145, 146, 148, 149, 150, 152, 153,
    154, 155, 157, 158, 159, 160, 161, 162, 163, 168, 172, 173, 176, 178, 181, 185, 191, 195, 197, 234, 246, 249, 251,
    263, 267, 269, 270, 276, 282, 283, 284, 285, 288, 291, 293, 295, 296, 297, 300, 308, 310, 311, 312, 314, 317, 318,
    321, 323, 324, 332, 334, 336, 338, 356, 361, 362, 365, 373, 374, 375, 377, 378, 379, 380, 381, 382, 384, 385, 386,
    387, 388, 389, 390, 397, 398, 400, 402, 405, 409, 415, 454, 466, 468, 469, 470, 471, 472, 473, 474, 475, 476, 477,
)
# fmt: on

BLENDSHAPES = (
    *("neutral", "browDownLeft", "browDownRight", "browInnerUp", "browOuterUpLeft", "browOuterUpRight", "cheekPuff"),
    *("cheekSquintLeft", "cheekSquintRight", "eyeBlinkLeft", "eyeBlinkRight", "eyeLookDownLeft", "eyeLookDownRight"),
    *("eyeLookInLeft", "eyeLookInRight", "eyeLookOutLeft", "eyeLookOutRight", "eyeLookUpLeft", "eyeLookUpRight"),
    *("eyeSquintLeft", "eyeSquintRight", "eyeWideLeft", "eyeWideRight", "jawForward", "jawLeft", "jawOpen"),
    *("jawRight", "mouthClose", "mouthDimpleLeft", "mouthDimpleRight", "mouthFrownLeft", "mouthFrownRight"),
    *("mouthFunnel", "mouthLeft", "mouthLowerDownLeft", "mouthLowerDownRight", "mouthPressLeft", "mouthPressRight"),
    *("mouthPucker", "mouthRight", "mouthRollLower", "mouthRollUpper", "mouthShrugLower", "mouthShrugUpper"),
    *("mouthSmileLeft", "mouthSmileRight", "mouthStretchLeft", "mouthStretchRight", "mouthUpperUpLeft"),
    *("mouthUpperUpRight", "noseSneerLeft", "noseSneerRight"),
)
"""Names of the network's 52 values, in its order: ARKit's, of which it leaves out the tongue."""

TRAITS = ("yaw", "pitch", "roll", "gazeAcross", "gazeUp", *BLENDSHAPES)
"""Names of what `Expressions` tells: degrees, gaze in eye widths from the middle of the eye, shapes 0..1."""

Traits = NDArray[np.float32]
"""float32[57] in the order of TRAITS."""

_INPUT = "serving_default_input_points:0"
_EYES = ((33, 133, 159, 145, 468), (362, 263, 386, 374, 473))


class Expressions:
    """Reads the traits of a face from its 478 landmarks."""

    def __init__(self, networks: Networks) -> None:
        self._network: Network = networks.load(EXPRESSIONS)

    def __call__(self, points: NDArray[np.floating]) -> Traits:
        """Traits of the face with landmarks `points` (478, 3) in pixels."""
        plane = np.asarray(points, np.float32)[:, :2]
        found = self._network.run(**{_INPUT: plane[list(POINTS)][None]})
        shapes = np.asarray(next(iter(found.values())), np.float32).reshape(-1)
        pose = head_pose(points)
        return np.array([pose.yaw, pose.pitch, pose.roll, *gaze(points), *shapes], np.float32)


def gaze(points: NDArray[np.floating]) -> tuple[float, float]:
    """Where the irises stand: -1 at the left eye corners to 1 at the right ones; up, in eye widths over the corners."""
    plane = np.asarray(points, np.float64)[:, :2]
    across, up = [], []
    for left, right, *_, iris in _EYES:
        axis = plane[right] - plane[left]
        to_iris = plane[iris] - plane[left]
        square = float(axis @ axis) or 1e-6
        across.append(2 * float(to_iris @ axis) / square - 1)
        up.append(float(axis[1] * to_iris[0] - axis[0] * to_iris[1]) / square)
    return float(np.mean(across)), float(np.mean(up))


def column(name: str) -> int:
    """Where the trait called `name` stands."""
    return TRAITS.index(name)
