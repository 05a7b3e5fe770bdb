"""The broad tones of a face and how another's skin is laid into them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

from farm.faces.identity import PreparedIdentity
from farm.faces.target import Target
from farm.faces.texture import Mask, Texture, atlas, shading, smoothstep

SIDE = 64
"""Side of the square in which tones are told."""
_RELIEF, _MOST_RELIEF = 1.15, 1.4
_LUMA = np.array([0.2126, 0.7152, 0.0722], np.float32)


class Drawn(Protocol):
    """Where textures are drawn."""

    def draw(self, texture: NDArray[np.float32], *, fine: bool = False) -> NDArray[np.float32]: ...


@dataclass(frozen=True, slots=True)
class Light:
    """Broad tones in texture coordinates, float32[n, n, 3] RGB each, and how much relief is kept, float32[n, n]."""

    own: Texture
    plate: Texture
    relief: Mask

    def ratios(self) -> NDArray[np.float32]:
        """By what detail that is darker (three channels) or brighter (the last) than its surroundings is scaled."""
        level = np.float32(0.016)
        ratio = np.minimum((self.plate + level) / (self.own + level), np.float32(1.6)) * self.relief[..., None]
        return np.dstack([ratio, ratio @ _LUMA])

    def fall_on(self, canvas: Drawn, detail: Texture) -> NDArray[np.float32]:
        """The identity's `detail`, drawn on the canvas, with its broad tones replaced by the plate's.

        What is darker than its surroundings stays so by the same ratio: black stays black. What is brighter is added,
        alike in all channels, for a ratio would turn the noise of a picture's weak channel into colour.
        """
        finer = canvas.draw(detail, fine=True) - canvas.draw(self.own)
        by_channel = canvas.draw(self.ratios())
        scale = np.where(finer < 0, by_channel[..., :3], by_channel[..., 3:])
        return np.asarray(canvas.draw(self.plate) + finer * scale, np.float32)


def light_of(target: Target, identity: PreparedIdentity, scale: float) -> Light:
    """Broad in the middle, `scale` of the unrolled face, and closely matched at the edge, where the two skins meet."""
    place = atlas(SIDE)
    plain = place.inside * (1 - place.features)
    given, wanted = (
        (plain * _reduced(mask) + 1e-3 * place.inside).astype(np.float32) for mask in (identity.skin, target.skin)
    )
    own, plate = _reduced(identity.texture), _reduced(target.texture)
    relief = 1 - plain * (1 - _relief(own, given, plate, wanted))
    seam = (1 - smoothstep(place.edge, 0.05, 0.16))[..., None]
    wide, close = scale, min(scale, 0.06)

    def tones(texture: Texture, weight: Mask) -> Texture:
        broad = shading(texture, weight, wide)
        return np.asarray(broad + (shading(texture, weight, close) - broad) * seam, np.float32)

    return Light(tones(own, given), tones(plate, wanted), relief.astype(np.float32))


def _relief(own: Texture, given: Mask, plate: Texture, wanted: Mask) -> float:
    """How much of the identity's skin relief suits the plate: less where far harsher, half as much again at most."""

    def harshness(texture: Texture, weight: Mask) -> float:
        luma = texture @ _LUMA
        level = shading(luma[..., None], weight, 0.1)[..., 0]
        contrast = (luma - level) / (level + 0.05)
        return float(np.sqrt((weight * contrast**2).sum() / weight.sum()))

    ratio = harshness(plate, wanted) / (harshness(own, given) + 1e-6)
    return float(np.clip(_RELIEF * np.sqrt(ratio), 0.5, _MOST_RELIEF))


def _reduced(values: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.asarray(cv2.resize(values, (SIDE, SIDE), interpolation=cv2.INTER_AREA), np.float32)
