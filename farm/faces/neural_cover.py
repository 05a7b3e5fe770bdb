"""Where a neural processor may change a face: box, areas, occluders, regions and hands, combined by the least."""

from __future__ import annotations

from functools import cache
from typing import Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

from farm.faces import hands
from farm.faces.mesh import OUTER_LIPS, VERTICES, canonical_mesh
from farm.faces.neural_align import Box
from farm.faces.neural_masks import Mask, Occluder, Regions, box_mask, combined, eroded_blur
from farm.faces.neural_settings import Area, MaskSettings
from farm.faces.neural_source import Loads
from farm.faces.target import Target
from farm.media.tonemap import Floats

_NOSE_TIP, _UNDER_NOSE = 4, 2


class Crop(Protocol):
    """A face cut out of a frame, as far as masks ask for it; `neural_align.Aligned` says what each thing is."""

    @property
    def side(self) -> int: ...
    @property
    def seen(self) -> Floats: ...
    @property
    def box(self) -> Box: ...
    @property
    def region(self) -> Floats: ...

    def to_crop(self, points: NDArray[np.floating]) -> NDArray[np.float64]: ...
    def from_region(self, values: Floats) -> Floats: ...


class Cover:
    """Masks of one processor; `of` is a pure function of the face given. Loads the models that its settings name."""

    def __init__(self, models: Loads, settings: MaskSettings) -> None:
        self._settings = settings
        self._occluders = [Occluder(models, name) for name in settings.occluders]
        self._regions = (
            Regions(models, settings.region_model, regions=settings.regions) if settings.region_model else None
        )

    def is_plain(self, target: Target) -> bool:
        """Whether the face's mask is the box alone, whatever it shows."""
        named = self._settings.areas or self._occluders or self._regions is not None
        return not named and not (self._settings.hands and target.hands)

    def of(self, face: Crop, target: Target, *, given: Floats | None = None) -> Floats:
        """The mask (side, side), 0..1, of an aligned face; `given` is the mask that the network itself made."""
        settings, side = self._settings, face.side
        top, right, bottom, left = settings.padding
        box = box_mask(side, blur=settings.box_blur, padding=(top, right, bottom, left))
        inner = [one[None] for one in self._inner(face, target)]
        if given is not None:
            inner.append(given[None])
        if not inner:
            return np.asarray(box[0], np.float32)
        return np.asarray(combined([box, *(_softened(mask, settings, side) for mask in inner)])[0], np.float32)

    def _inner(self, face: Crop, target: Target) -> list[Floats]:
        settings = self._settings
        found = [area_mask(face.to_crop(target.points), area, face.side) for area in settings.areas]
        masks = [np.maximum.reduce(found)] if found else []
        masks += [np.asarray(occluder(face.seen[None])[0], np.float32) for occluder in self._occluders]
        if self._regions is not None:
            masks.append(np.asarray(self._regions(face.seen[None])[0], np.float32))
        if settings.hands:
            origin = np.array(face.box[:2], np.float64)
            masks += [1 - face.from_region(hands.outline(hand, face.region, origin)) for hand in target.hands]
        return masks


def area_mask(points: NDArray[np.float64], area: Area, side: int) -> Floats:
    """1 inside the hull of the area's landmarks, (side, side); `points` (478, 2) are pixels of the crop."""
    canvas = np.zeros((side, side), np.uint8)
    hull = cv2.convexHull(np.round(points[_vertices(area)] * 16).astype(np.int32).reshape(-1, 1, 2))
    cv2.fillConvexPoly(canvas, np.asarray(hull, np.int32), 255, cv2.LINE_AA, 4)
    return np.asarray(canvas, np.float32) / np.float32(255)


@cache
def _vertices(area: Area) -> NDArray[np.int64]:
    """Landmarks of an area: by height on the upright head, the nose in both halves."""
    height = canonical_mesh().vertices[:, 1]
    if area == "mouth":
        return np.array(OUTER_LIPS)
    if area == "upper-face":
        return np.flatnonzero(height >= height[_UNDER_NOSE])
    if area == "lower-face":
        return np.flatnonzero(height <= height[_NOSE_TIP])
    return np.arange(VERTICES)


def _softened(mask: Mask, settings: MaskSettings, side: int) -> Mask:
    radius = round(settings.erode * side)
    if radius > 0:
        disc = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * radius + 1, 2 * radius + 1))
        mask = np.stack([cv2.erode(one, disc) for one in mask]).astype(np.float32)
    return eroded_blur(mask, sigma=settings.blur * side) if settings.blur > 0 else mask
