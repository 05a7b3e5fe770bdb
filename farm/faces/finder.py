"""The detector that a recipe names, made to look at every angle and down to small faces."""

from __future__ import annotations

from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from farm.errors import RecipeError
from farm.faces.detect import SIDE, Detection, Detector, Find, all_turns, distinct, turning
from farm.faces.network import DETECTOR, Networks
from farm.faces.neural_detect import CatalogueDetector
from farm.faces.neural_source import catalogue_of
from farm.inference.spec import ModelSpec, Task
from farm.invalid import faults
from farm.recipe import DETECT, DetectorSpec

_KINDS = ("scrfd", "yolo-face")
_FLOOR = 16
"""Pixels of the detector's own square from which faces are found that stand upright."""

_LEANING_FLOOR = 24
"""The same for faces at any angle: of 24 turned by 30° each, all are found at 24 pixels, 19 at 16."""

_LARGEST_PREVIEW = 4096


class DetectSettings(BaseModel):
    """How faces are looked for.

    Attributes
    ----------
    smallest: pixels of the plate as it is shown from which faces are looked for, in overlapping tiles where the
        detector's square is too coarse for them; None: as small as one look at the whole picture finds (16 pixels in
        640, 48 in 1920). Each tile costs as much as the whole picture: 16 at 1080p costs nine times as much, and
        some twenty times where `turned` is "always".
    min_score: of a face, None for the detector's own.
    turned: "auto" looks at turned pictures where nothing certain stands upright; "always" looks eight times at each,
        for plates in which some faces stand and others lie, and for small faces that lean; "never" looks once.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    smallest: float | None = Field(default=None, ge=8, le=1024)
    min_score: float | None = Field(default=None, gt=0, lt=1)
    turned: Literal["auto", "always", "never"] = "auto"


class Upright(Protocol):
    """A detector as this module needs it."""

    @property
    def sure(self) -> float: ...

    def upright(self, picture: NDArray[np.uint8]) -> list[Detection]: ...


class Finder:
    """Finds the faces of a preview."""

    def __init__(self, detector: Upright, settings: DetectSettings) -> None:
        self._detector, self._settings = detector, settings

    def preview_side(self, usual: int) -> int:
        """Longest side of the preview that the search needs, where `usual` is enough for the rest."""
        return usual if self._settings.smallest is None else _LARGEST_PREVIEW

    def __call__(self, picture: NDArray[np.uint8], shrunk: float = 1.0) -> list[Detection]:
        """Faces of a BGR picture (h, w, 3), `shrunk` times smaller than the plate as it is shown, largest first."""
        faces = self._at_angles(picture)
        if self._settings.smallest is None:
            return faces
        smallest = self._settings.smallest / shrunk
        every = self._settings.turned == "always"
        look, floor = (self._every_turn, _LEANING_FLOOR) if every else (self._detector.upright, _FLOOR)
        tile = SIDE * smallest / floor
        if tile >= max(picture.shape[:2]):
            return faces
        return distinct([*faces, *in_tiles(look, picture, tile, floor * max(picture.shape[:2]) / SIDE)])

    def _at_angles(self, picture: NDArray[np.uint8]) -> list[Detection]:
        if self._settings.turned == "never":
            return self._detector.upright(picture)
        if self._settings.turned == "always":
            return self._every_turn(picture)
        return turning(self._detector.upright, picture, self._detector.sure)

    def _every_turn(self, picture: NDArray[np.uint8]) -> list[Detection]:
        return all_turns(self._detector.upright, picture)


def in_tiles(find: Find, picture: NDArray[np.uint8], side: float, overlap: float) -> list[Detection]:
    """Faces found in squares of about `side` pixels that overlap by `overlap` or more.

    A face cut by a tile's edge is left to the tile beside it, or to the look at the whole picture if it is larger than
    the overlap.
    """
    faces: list[Detection] = []
    height, width = picture.shape[:2]
    square = int(np.ceil(max(side, 1.5 * overlap)))
    for top in _starts(height, square, overlap):
        for left in _starts(width, square, overlap):
            tile = np.ascontiguousarray(picture[top : top + square, left : left + square])
            low, high = np.array([left, top]), np.array([left + tile.shape[1], top + tile.shape[0]])
            for face in find(tile):
                box = face.box + np.tile(low, 2)
                cut = ((box[:2] < low + 1) & (low > 0)) | ((box[2:] > high - 1) & (high < (width, height)))
                if not cut.any():
                    faces.append(Detection(box, face.five + low, face.score))
    return faces


def _starts(length: int, side: int, overlap: float) -> list[int]:
    """Where tiles begin, evenly spread over `length`."""
    if side >= length:
        return [0]
    count = int(np.ceil((length - overlap) / (side - overlap)))
    return [int(start) for start in np.linspace(0, length - side, max(2, count)).round()]


def open_finder(spec: DetectorSpec, networks: Networks) -> Finder:
    """The finder that a recipe names. RecipeError for a model that is no detector, or a wrong setting."""
    settings = detect_settings(spec)
    if spec.model == DETECTOR:
        network = networks.load(DETECTOR)
        chosen = {} if settings.min_score is None else {"min_score": settings.min_score}
        return Finder(Detector(network, **chosen), settings)
    models = catalogue_of(networks, spec.model)
    return Finder(CatalogueDetector(models, spec.model, min_score=settings.min_score), settings)


def detect_settings(spec: DetectorSpec) -> DetectSettings:
    """The checked settings; RecipeError names a wrong one."""
    try:
        return DetectSettings.model_validate(spec.settings)
    except ValidationError as error:
        first = faults(error)[0]
        raise RecipeError(
            f"The setting {first.field!r} is wrong: {first.why}.", where=DETECT, do="Correct it or leave it out."
        ) from error


def check_detector(spec: ModelSpec) -> None:
    """RecipeError unless the catalogue entry is a detector that recipes can name."""
    usable = spec.name == DETECTOR or (spec.decode is not None and spec.decode.kind in _KINDS)
    if spec.task is not Task.DETECTOR or not usable:
        raise RecipeError(
            "It is no detector of faces that a recipe can name.",
            where=f"model {spec.name}",
            do="Use yunet, scrfd-2.5g, retinaface-10g or yoloface-8n.",
        )
