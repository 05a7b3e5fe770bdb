"""Small frames, networks and kernels for the tests of the card's path."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from farm.faces.cuda.overlay import Overlay
from farm.faces.cuda.surface import Surface
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
