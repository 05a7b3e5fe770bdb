"""Which frames of a bank to put onto a plate's frame: the best path through time, as far as the window sees it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from farm.faces.bank import Bank, features

Shares = NDArray[np.float32]
"""float32[3, n]: how much of each bank frame goes into each region; each row sums to 1, two of them at most not 0."""

_JUMP = 1.4
"""What a jump to another place of the bank costs, in units of a frame that plainly does not fit."""
_PER_SECOND = 4.0
_BLUR = 0.25
_SOFTNESS = 0.12
"""How much dearer a path may be and still be mixed in: it makes switches soft."""


class BankPath:
    """Chooses frames of one bank.

    The path is the cheapest in the sense of Viterbi (1967): each plate frame pays for what does not fit, each step
    for moving in the bank: nothing for staying, little for a frame shot close in time, `_JUMP` at most. Instead of the
    one cheapest path its soft form is taken, the forward-backward recursion (Baum and others, 1970): every bank frame
    gets a share by how little dearer the best paths through it are, and shares change smoothly where paths switch.
    """

    def __init__(self, bank: Bank) -> None:
        self._features = features(bank.traits)
        self._blur = _BLUR * (1 - bank.sharpness)
        apart = np.abs(bank.seconds[:, None] - bank.seconds[None]) * _PER_SECOND
        other = bank.clips[:, None] != bank.clips[None]
        step = np.where(other, _JUMP, np.minimum(apart, _JUMP)).astype(np.float64)
        self._moves = np.exp(-step / _SOFTNESS)

    def shares(self, traits: NDArray[np.float32], here: int) -> Shares:
        """Shares for the plate frame at position `here` of a window of traits (t, 57), in order of time."""
        wanted = features(traits)
        gap = ((wanted[:, :, None] - self._features[:, None]) ** 2).sum(axis=3, dtype=np.float64)
        cost = np.transpose(gap + self._blur, (1, 0, 2))
        fit = np.exp(-(cost - cost.min(axis=2, keepdims=True)) / _SOFTNESS)
        before, after = np.ones_like(fit[0]), np.ones_like(fit[0])
        for row in fit[:here]:
            before = _scaled((before * row) @ self._moves)
        for row in fit[:here:-1]:
            after = _scaled((after * row) @ self._moves)
        return _two(before * fit[here] * after)


def _scaled(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(values / values.max(axis=1, keepdims=True))


def _two(likely: NDArray[np.float64]) -> Shares:
    """The two likeliest of each row, less the third, so that a frame enters and leaves with a share of nothing."""
    best = np.zeros_like(likely)
    best[np.arange(len(likely)), likely.argmax(axis=1)] = 1
    if likely.shape[1] > 2:
        third = np.partition(likely, -3, axis=1)[:, -3:-2]
        likely = np.maximum(likely - third, 0)
    # Three frames that are equally likely leave nothing: then it is the first of them.
    likely = np.where(likely.max(axis=1, keepdims=True) > 0, likely, best)
    return np.asarray(likely / likely.sum(axis=1, keepdims=True), np.float32)
