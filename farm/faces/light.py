"""A track's face as its window shows it: averages that do not flicker."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from farm.faces.hands import Hand
from farm.faces.target import Target
from farm.faces.texture import Mask, Texture
from farm.faces.track import AFTER, BEFORE, Step, Track

_LIGHT_SIGMA = 3.5
_SKIN_SIGMA = 1.5


def target_of(track: Track, hands: list[Hand], rest: NDArray[np.float64] | None) -> Target:
    """The face of the track's frame with light and skin averaged over the window by Gaussian weights."""
    return Target(
        points=track.points(),
        texture=_average([s.face.texture for s in track.steps], track.steps, _LIGHT_SIGMA),
        skin=_average([s.face.skin for s in track.steps], track.steps, _SKIN_SIGMA),
        hands=tuple(hands),
        iris=_iris(track),
        rest=rest,
        traits=_traits(track),
        now=sum(step.offset < 0 for step in track.steps),
        sharpness=track.sharpness(),
    )


def _weights(steps: tuple[Step, ...], sigma: float) -> NDArray[np.float32]:
    """Normalised; symmetric even where one side of the window is empty, so that a track's end adds no jump."""
    offset = np.array([step.offset for step in steps], np.float64)
    weight = np.exp(-0.5 * (offset / sigma) ** 2) * (np.abs(offset) <= min(BEFORE, AFTER))
    return np.asarray(weight / weight.sum(), np.float32)


def _average(values: list[Texture] | list[Mask], steps: tuple[Step, ...], sigma: float) -> NDArray[np.float32]:
    total = np.zeros_like(values[0])
    if not total.size:
        return total  # no processor of the recipe asks for it
    for value, weight in zip(values, _weights(steps, sigma), strict=True):
        if weight > 1e-3:
            total += value * weight
    return total


def _traits(track: Track) -> NDArray[np.float32] | None:
    found = [step.face.traits for step in track.steps if step.face.traits is not None]
    return np.array(found) if len(found) == len(track.steps) else None


def _iris(track: Track) -> NDArray[np.float32] | None:
    """Median of the irises' colours over the window's open eyes."""
    found = [step.face.iris for step in track.steps if step.face.iris is not None]
    return np.asarray(np.median(found, axis=0), np.float32) if found else None
