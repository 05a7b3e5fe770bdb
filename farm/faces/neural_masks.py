"""Masks from catalogue networks: what covers a face (XSeg), and which part of it each pixel shows (BiSeNet)."""

from __future__ import annotations

from collections.abc import Iterable

import cv2
import numpy as np
from numpy.typing import NDArray

from farm.errors import RecipeError
from farm.faces.neural_source import Loads
from farm.faces.neural_tensors import Picture, as_unit, to_mask, to_tensor

Mask = NDArray[np.float32]
"""0..1, (n, h, w): 1 where the face is to be changed."""

FACE = (
    "skin",
    "left-brow",
    "right-brow",
    "left-eye",
    "right-eye",
    "glasses",
    "nose",
    "mouth",
    "upper-lip",
    "lower-lip",
)
"""Regions that a swap may change unless a recipe says otherwise."""


class Occluder:
    """1 where nothing covers the face. Several models are combined by minimum with `combined`."""

    def __init__(self, models: Loads, name: str) -> None:
        self._model = models.load(name)
        decode = self._model.spec.decode
        self._threshold: float | None = decode.parameters.get("threshold") if decode is not None else None

    def __call__(self, crops: NDArray[np.uint8] | Picture) -> Mask:
        """Masks of aligned RGB crops (n, s, s, 3), at the crops' size."""
        given, made = self._model.spec.inputs[0], self._model.spec.outputs[0]
        pictures = _resized(as_unit(crops), int(given.shape[1 if given.layout == "NHWC" else 2]))
        output = self._model.run_batch(**{given.name: to_tensor(pictures, given)})[made.name]
        if self._threshold is not None:
            output = (output > self._threshold).astype(np.float32)
        return _back(to_mask(output, made), crops.shape[1])


class Regions:
    """1 on the pixels of the chosen regions."""

    def __init__(self, models: Loads, name: str, *, regions: Iterable[str] = FACE) -> None:
        self._model = models.load(name)
        decode = self._model.spec.decode
        classes = list(decode.parameters["classes"]) if decode is not None else []
        unknown = sorted(set(regions) - set(classes))
        if unknown:
            raise RecipeError(
                f"It knows no region {', '.join(unknown)}.", where=f"model {name}", do=f"Use: {', '.join(classes)}."
            )
        self._chosen = [classes.index(region) for region in regions]

    def __call__(self, crops: NDArray[np.uint8] | Picture) -> Mask:
        """Masks of aligned RGB crops (n, s, s, 3), at the crops' size."""
        given, made = self._model.spec.inputs[0], self._model.spec.outputs[0]
        pictures = _resized(as_unit(crops), int(given.shape[2]))
        logits = self._model.run_batch(**{given.name: to_tensor(pictures, given)})[made.name]
        return _back(np.isin(logits.argmax(axis=1), self._chosen).astype(np.float32), crops.shape[1])


def combined(masks: Iterable[Mask]) -> Mask:
    """The least of several masks, clipped: a pixel is changed only where every mask agrees."""
    return np.asarray(np.clip(np.minimum.reduce(list(masks)), 0, 1), np.float32)


def eroded_blur(mask: Mask, *, sigma: float = 5.0) -> Mask:
    """Blur, then stretch .5..1 to 0..1, so that the soft edge lies inside the mask and nothing leaks out of it."""
    soft = np.stack([cv2.GaussianBlur(one, (0, 0), sigma) for one in mask])
    return np.asarray((np.clip(soft, 0.5, 1) - 0.5) * 2, np.float32)


def box_mask(side: int, *, blur: float = 0.3, padding: tuple[float, float, float, float] = (0, 0, 0, 0)) -> Mask:
    """A box (1, side, side) with soft edges; padding is top, right, bottom, left in percent of the side.

    a = half the side · blur; a border of max(a/2, 1) or the padding is empty; then a Gaussian of sigma a/4.
    """
    amount = int(side * 0.5 * blur)
    border = max(amount // 2, 1)
    top, right, bottom, left = (max(border, int(side * part / 100)) for part in padding)
    mask = np.zeros((side, side), np.float32)
    mask[top : side - bottom, left : side - right] = 1
    return (cv2.GaussianBlur(mask, (0, 0), amount * 0.25) if amount else mask)[None].astype(np.float32)


def _resized(pictures: Picture, side: int) -> Picture:
    if pictures.shape[1] == side:
        return pictures
    return np.stack([cv2.resize(one, (side, side), interpolation=cv2.INTER_AREA) for one in pictures]).astype(
        np.float32
    )


def _back(masks: Mask, side: int) -> Mask:
    if masks.shape[1] == side:
        return masks
    return np.stack([cv2.resize(one, (side, side), interpolation=cv2.INTER_LINEAR) for one in masks]).astype(np.float32)
