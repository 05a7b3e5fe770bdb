"""The plate's eyes in the identity's colours: how much an iris and the white around it are scaled, and where."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from farm.faces import eyes
from farm.faces.identity import PreparedIdentity
from farm.faces.target import Target
from farm.faces.texture import Mask, Texture, atlas, smoothstep

Patch = tuple[slice, slice, Mask]
"""Rows and columns of a canvas, and how much (0..1) each of their pixels takes on a colour."""

_WHITE = 0.8
"""Share of an open eye's pixels that are darker than its whites."""
_WHITES = (0.6, 0.95)
"""Between which shares of an eye's pixels, by how light they are, its whites are told; above lie glints."""
_DARKER = 0.75
"""An iris is drawn darker than its median: of few pixels it has neither pupil nor rim to be seen by."""
_SHOWN = (0.18, 0.32)
"""Gap between the lids over the eye's width: from where whites are light, and wholly."""
_LUMA = np.array([0.2126, 0.7152, 0.0722], np.float32)
_PLAIN = np.ones(3, np.float32)


@dataclass(frozen=True, slots=True)
class EyeColour:
    """What the irises and whites of one face are scaled by, RGB (3,) each, and where on a canvas."""

    iris: NDArray[np.float32]
    whites: NDArray[np.float32]
    irises: list[Patch]
    white_places: list[Patch]

    @classmethod
    def of(
        cls,
        target: Target,
        identity: PreparedIdentity,
        points: NDArray[np.float64],
        shape: tuple[int, int],
        share: float,
    ) -> EyeColour:
        """For a canvas (h, w) with the face at the landmarks `points`, `share` (0..1) of the way to the identity's.

        Nothing changes where the colour of either's irises is unknown.
        """
        ratio = iris_ratio(target, identity)
        if ratio is None or share == 0:
            return cls(_PLAIN, _PLAIN, [], [])
        irises = eyes.irises(points, shape)
        whites = _whites_of(target, points, shape, irises)
        return cls(
            ratio,
            whites_ratio(target, identity),
            [(rows, columns, iris * np.float32(share)) for rows, columns, iris in irises],
            [(rows, columns, white * np.float32(share)) for rows, columns, white in whites],
        )

    def paint(self, plate: Texture) -> None:
        """Colour the eyes of `plate` (h, w, 3), the canvas, in place; glints on the irises stay."""
        for rows, columns, where in self.irises:
            part = plate[rows, columns]
            glint = smoothstep(part @ _LUMA, 0.6, 0.85)
            part *= 1 + (self.iris - 1) * (where * (1 - glint))[..., None]
        for rows, columns, where in self.white_places:
            plate[rows, columns] *= 1 + (self.whites - 1) * where[..., None]


def iris_ratio(target: Target, identity: PreparedIdentity) -> NDArray[np.float32] | None:
    """By what the plate's irises are scaled to have the identity's colour, RGB (3,); None where one is not known."""
    if target.iris is None or identity.iris is None:
        return None
    # Colours are compared with each face's own skin, so that the light of the two pictures does not count.
    wanted, given = _skin_tone(target.texture, target.skin), _skin_tone(identity.texture, identity.skin)
    light = wanted / np.maximum(given, 0.02)
    # Eyes that lie in the shade keep it: an iris lighter than their whites allow would glow.
    light = light * min(1.0, _lightness(target.texture, wanted) / max(0.02, _lightness(identity.texture, given)))
    ratio = _DARKER * (identity.iris * light + 0.03) / (target.iris + 0.03)
    return np.clip(ratio, 0.4, 1.8).astype(np.float32)


def whites_ratio(target: Target, identity: PreparedIdentity) -> NDArray[np.float32]:
    """By what the plate's whites are scaled to lie to its skin as the identity's do to theirs, RGB (3,)."""
    given = _whites(identity.texture) / np.maximum(_skin_tone(identity.texture, identity.skin), 0.02)
    has = _whites(target.texture) / np.maximum(_skin_tone(target.texture, target.skin), 0.02)
    return np.clip(given / np.maximum(has, 0.02), 0.5, 2.5).astype(np.float32)


def _whites_of(target: Target, points: NDArray[np.float64], shape: tuple[int, int], irises: list[Patch]) -> list[Patch]:
    """The whites of open eyes on a canvas (h, w), soft edges; half-shut ones lie in the lids' shade and stay so."""
    beside = np.ones(shape, np.float32)
    for rows, columns, iris in irises:
        beside[rows, columns] *= 1 - iris
    found = []
    for (rows, columns, ball), gap in zip(eyes.balls(points, shape), eyes.gaps(target.points), strict=True):
        shown = float(smoothstep(np.array(gap), *_SHOWN))
        if shown > 0 and ball.size:
            found.append((rows, columns, ball * beside[rows, columns] * np.float32(shown)))
    return found


def _skin_tone(texture: Texture, skin: Mask) -> NDArray[np.float32]:
    weight = (atlas().cheeks * skin).ravel()
    return np.asarray(weight @ texture.reshape(-1, 3) / (weight.sum() + 1e-6), np.float32)


def _lightness(texture: Texture, tone: NDArray[np.float32]) -> float:
    """How light the whites of the eyes are, as a share of the skin's `tone`."""
    seen = texture[atlas().eyes > 0.5] @ _LUMA
    return float(np.quantile(seen, _WHITE)) / max(0.02, float(tone @ _LUMA))


def _whites(texture: Texture) -> NDArray[np.float32]:
    """Mean RGB of the whites of an unrolled face."""
    seen = texture[atlas().eyes > 0.5]
    luma = seen @ _LUMA
    low, high = np.quantile(luma, _WHITES)
    return np.asarray(seen[(luma >= low) & (luma <= high)].mean(axis=0), np.float32)
