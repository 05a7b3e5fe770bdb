"""A face cut out of a frame level and upright for a network, and what the network made of it laid back."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from farm.faces.geometry import Affine, apply, compose, invert, scale_of, similarity
from farm.inference.templates import template
from farm.media.colour import paste_rgb, region_to_rgb
from farm.media.frame import Frame
from farm.media.tonemap import Floats, ToneMap

Box = tuple[int, int, int, int]

_COARSE = 0.6
_LEAST = 1 / 512


@dataclass(frozen=True, slots=True)
class Aligned:
    """A face of a frame on a network's template.

    Attributes
    ----------
    box: the frame's pixels (x0, y0, x1, y1) that the crop shows, cut at the frame's edges.
    region: float32 (h, w, 3), the plate's R'G'B' of the box. affine: region to crop.
    crop: float32 (side, side, 3), the plate's R'G'B' on the template; beyond the frame its edge is repeated.
    seen: the crop as networks know pictures, 0..1.
    """

    box: Box
    region: Floats
    affine: Affine
    crop: Floats
    seen: Floats

    @property
    def side(self) -> int:
        return int(self.crop.shape[0])

    def to_crop(self, points: NDArray[np.floating]) -> NDArray[np.float64]:
        """Frame pixels (n, 2 or more) as pixels of the crop (n, 2)."""
        plane = np.asarray(points, np.float64)[:, :2] - np.array(self.box[:2], np.float64)
        return apply(self.affine, plane)

    def from_region(self, values: Floats) -> Floats:
        """Values (h, w) of the region on the crop; nothing beyond it."""
        return warped(values, self.affine, (self.side, self.side), border=cv2.BORDER_CONSTANT)


def aligned(frame: Frame, five: NDArray[np.floating], name: str, side: int, look: ToneMap) -> Aligned | None:
    """The face with these five points (frame pixels) on template `name` at `side` pixels.

    None where nothing of the crop lies in the frame, or the points are no face's.
    """
    if not np.isfinite(five).all() or float(np.ptp(five, axis=0).max()) < 1:
        return None
    whole = similarity(five, template(name, side))
    corners = apply(invert(whole), np.array([[0, 0], [side, 0], [0, side], [side, side]], np.float64) - 0.5)
    box = _inside(frame, corners)
    if box is None:
        return None
    region = region_to_rgb(frame, box)
    affine = compose(whole, np.array([[1, 0, box[0]], [0, 1, box[1]]], np.float64))
    crop = warped(region, affine, (side, side), border=cv2.BORDER_REPLICATE, cubic=scale_of(affine) > 1)
    return Aligned(box, region, affine, crop, look.seen(crop))


def lay_back(frame: Frame, face: Aligned, made: Floats, mask: Floats) -> Floats | None:
    """Blend `made` (side, side, 3), the plate's R'G'B', into the frame by `mask` (side, side); the mask in the box.

    None, and the frame as it was, where the picture is not finite.
    """
    height, width = face.region.shape[:2]
    back = invert(face.affine)
    picture = warped(made, back, (width, height), border=cv2.BORDER_REPLICATE)
    weight = np.clip(warped(mask, back, (width, height), border=cv2.BORDER_CONSTANT), 0, 1)
    weight[weight < _LEAST] = 0
    if not np.isfinite(picture).all():
        return None
    paste_rgb(frame, face.box, picture, weight)
    return weight


def warped(values: Floats, affine: Affine, size: tuple[int, int], *, border: int, cubic: bool = False) -> Floats:
    """`values` moved by `affine` onto a canvas (width, height); what shrinks is averaged first, or it would alias."""
    scale = scale_of(affine)
    if scale < _COARSE:
        shape = (max(1, round(values.shape[1] * scale)), max(1, round(values.shape[0] * scale)))
        ratio = np.array([shape[0] / values.shape[1], shape[1] / values.shape[0]])
        values = np.asarray(cv2.resize(values, shape, interpolation=cv2.INTER_AREA), np.float32)
        # Pixel centres: x of the large picture is (x + .5) · ratio - .5 in the small one.
        grown = np.array([[1 / ratio[0], 0, 0.5 / ratio[0] - 0.5], [0, 1 / ratio[1], 0.5 / ratio[1] - 0.5]])
        affine = compose(affine, grown)
    mode = cv2.INTER_CUBIC if cubic else cv2.INTER_LINEAR
    return np.asarray(cv2.warpAffine(values, affine, size, flags=mode, borderMode=border), np.float32)


def _inside(frame: Frame, corners: NDArray[np.float64]) -> Box | None:
    low, high = np.floor(corners.min(axis=0)) - 1, np.ceil(corners.max(axis=0)) + 2
    x0, y0 = (int(max(0, v)) for v in low)
    x1, y1 = int(min(frame.width, high[0])), int(min(frame.height, high[1]))
    return (x0, y0, x1, y1) if x1 - x0 >= 2 and y1 - y0 >= 2 else None
