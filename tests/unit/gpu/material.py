"""Small frames, networks and kernels for the tests of the card's path."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from farm.faces.cuda.overlay import Overlay
from farm.faces.cuda.paste import PastePlan, paste_plan
from farm.faces.cuda.surface import Surface
from farm.faces.neural_masks import box_mask
from farm.media.colour import blends_of
from farm.media.facts import ColourFacts


def surface(width: int = 96, height: int = 64, depth: int = 8, location: str = "left") -> Surface:
    colour = ColourFacts(primaries="bt709", transfer="bt709", matrix="bt709", range="tv", chroma_location=location)
    return Surface(width, height, depth, colour)


def noise(surface: Surface, count: int = 2, seed: int = 3) -> NDArray[Any]:
    """Frames of legal samples without any order."""
    random = np.random.default_rng(seed)
    unit = 1 << (surface.depth - 8)
    values = random.integers(16 * unit, 236 * unit, (count, surface.rows, surface.width))
    return (values << surface.shift).astype(surface.dtype)


def label(surface: Surface) -> Overlay:
    """A patch of changing colour and opacity at odd places, as a label would be."""
    random = np.random.default_rng(7)
    rgb = random.random((17, 31, 3)).astype(np.float32)
    mask = np.clip(random.random((17, 31)) * 1.6 - 0.3, 0, 1).astype(np.float32)
    return Overlay.of(blends_of(surface.planar, (13, 21, 44, 38), rgb, mask))


def toned(
    phases: int, strength: float
) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32], PastePlan]:
    """Two crops (2, s, s, 3) of the plate and of a network, with other colours; their masks, and who is laid how."""
    random, side = np.random.default_rng(11), 16 * phases
    given = 0.5 + 0.15 * random.normal(size=(2, side, side, 3)) * [1, 0.7, 0.6] + [0.2, 0, -0.1]
    made = 0.4 + 0.08 * random.normal(size=(2, side, side, 3)) + [0, 0.1, 0.05]
    masks = np.stack([box_mask(side)[0], np.tri(side, dtype=np.float32)])
    turned = np.array([[1.4, -0.3, 30.0], [0.3, 1.4, 12.0]])
    plan = paste_plan(
        surface(), np.array([0, 1]), np.stack([turned, turned]), side,
        mask_of=np.array([0, 1]), strength=np.full(2, strength),
    )  # fmt: skip
    return np.clip(given, 0, 1).astype(np.float32), np.clip(made, 0, 1).astype(np.float32), masks, plan
