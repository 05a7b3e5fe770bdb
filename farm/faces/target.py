"""The face that a processor is to change, and what it did of a frame."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from farm.faces.geometry import HeadPose, head_pose
from farm.faces.hands import Hand
from farm.faces.mesh import VERTICES
from farm.faces.texture import Mask, Texture


@dataclass(frozen=True, slots=True)
class Target:
    """The face to be changed, as one frame's window shows it.

    Attributes
    ----------
    points: float64[478, 3], smoothed landmarks in the frame's pixels.
    texture, skin: the unrolled face and its bare skin, averaged over the window.
    hands: hands in front of it. iris: the irises' colour over the window, None where they are not seen.
    rest: float64[468, 3], the person's form at rest (see `geometry.Placement.undo`), None where unknown.
    sharpness: over the window (`farm.faces.sharpness`), None where it was not measured.
    traits: float32[t, 57], what the face does in the window, `now` the row of this frame; None where nobody asked.
    """

    points: NDArray[np.float64]
    texture: Texture
    skin: Mask
    hands: tuple[Hand, ...] = ()
    iris: NDArray[np.float32] | None = None
    rest: NDArray[np.float64] | None = None
    traits: NDArray[np.float32] | None = None
    now: int = 0
    sharpness: float | None = None

    @property
    def pose(self) -> HeadPose:
        return head_pose(self.points)

    @property
    def size(self) -> float:
        """The longer side of the landmarks' box, pixels."""
        return float(np.ptp(np.ascontiguousarray(self.points[:VERTICES, :2].T), axis=1).max())


@dataclass(frozen=True, slots=True)
class Patch:
    """What was changed: the box in the frame (x0, y0, x1, y1) and the mask in it, float32 0..1.

    `redone`: a network's answer was not usable and was made again in full precision.
    """

    box: tuple[int, int, int, int]
    mask: Mask
    redone: bool = False
