"""Who is where, and how each head is held, at any moment: the sample plate's choreography."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from farm.sample.expression import Expression

EVENTS_FROM = 8.0
"""Plates shorter than this many seconds stay without crossing and leaving, unless those are asked for."""


@dataclass(frozen=True, slots=True)
class Moment:
    """One person at one moment. `x`, `y`: the head's pivot as a share of the picture's width and height; `size`
    multiplies the person's usual size; `nearness` orders the people, larger is in front. Angles in degrees."""

    x: float
    y: float
    size: float
    nearness: float
    yaw: float
    pitch: float
    roll: float
    body_yaw: float
    body_roll: float
    expression: Expression


@dataclass(frozen=True, slots=True)
class Part:
    """What one person does through a plate of `seconds`.

    Parameters
    ----------
    place: 0 starts on the left, 1 on the right; they change places where there are events.
    alone: the only person, who stands in the middle and does not cross.
    events: whether this person crosses and leaves.
    still: the head neither turns nor speaks nor blinks (for measuring jitter).
    """

    place: int
    seconds: float
    seed: int
    alone: bool = False
    events: bool = True
    still: bool = False
    _phases: tuple[float, ...] = field(init=False)
    _blinks: tuple[float, ...] = field(init=False)

    def __post_init__(self) -> None:
        rng = np.random.default_rng([self.seed, self.place])
        object.__setattr__(self, "_phases", tuple(float(value) for value in rng.uniform(0, 2 * np.pi, 8)))
        gaps = rng.uniform(1.8, 3.4, int(self.seconds / 1.8) + 2)
        gaps[0] = rng.uniform(0.6, 1.0)
        object.__setattr__(self, "_blinks", tuple(float(value) for value in np.cumsum(gaps)))

    def at(self, t: float) -> Moment:
        """The moment `t` seconds into the plate."""
        x, nearness, walk = self._walk(t / self.seconds)
        phase = self._phases
        if self.still:
            return Moment(x, 0.53, 1.0, nearness, 0, 0, 0, 0, 0, Expression())
        direction = 1 if self.place == 0 else -1
        yaw = direction * (23.5 * np.sin(1.15 * t + 0.3) + 4.0 * np.sin(2.7 * t + phase[1]))
        pitch = 8.0 * np.sin(1.7 * t + phase[2]) + 3.0 * np.sin(3.6 * t + phase[3])
        roll = 7.0 * np.sin(0.9 * t + phase[4]) + 3.0 * np.sin(2.2 * t + phase[5])
        step = walk * abs(np.sin(2 * np.pi * 0.9 * t))
        return Moment(
            x=x + 0.006 * np.sin(0.8 * t + phase[6]),
            y=0.53 + 0.008 * np.sin(1.1 * t + phase[7]) - 0.012 * step,
            size=1 + 0.05 * nearness,
            nearness=nearness,
            yaw=float(yaw),
            pitch=float(pitch),
            roll=float(roll),
            body_yaw=float(0.22 * yaw),
            body_roll=float(0.1 * roll),
            expression=self._expression(t),
        )

    def _expression(self, t: float) -> Expression:
        lid = max(_blink(t - start) for start in self._blinks)
        phase = self._phases
        speaking = np.clip(0.5 + 1.5 * np.sin(0.85 * t + phase[0] + 1.2 * self.place), 0, 1)
        jaw = speaking * (0.5 + 0.5 * np.sin(7.5 * t + phase[3])) * (0.6 + 0.4 * np.sin(3.1 * t + phase[5]))
        gaze = np.tanh(3 * np.sin(0.75 * t + phase[2]))
        return Expression(lid_left=lid, lid_right=lid, jaw=float(0.85 * jaw), gaze=float(gaze))

    def _walk(self, share: float) -> tuple[float, float, float]:
        """(x, nearness, how fast 0..1) after `share` of the plate."""
        if self.alone:
            legs = [(0.70, 0.80, 0.5, 1.3), (0.86, 0.95, 1.3, 0.5)] if self.events else []
            start = 0.5
        elif self.place == 0:
            # crosses in front of the other, leaves on the right and comes back
            legs = [(0.26, 0.40, 0.29, 0.71), (0.62, 0.70, 0.71, 1.3), (0.78, 0.86, 1.3, 0.71)] if self.events else []
            start = 0.29
        else:
            # crosses behind, later stands half out of the picture on the left
            legs = [(0.27, 0.41, 0.71, 0.29), (0.86, 0.90, 0.29, 0.02), (0.94, 0.99, 0.02, 0.29)] if self.events else []
            start = 0.71
        x, walk = start, 0.0
        for begin, end, origin, goal in legs:
            if share >= begin:
                gone = min((share - begin) / (end - begin), 1.0)
                x = origin + (goal - origin) * _smooth(gone)
                walk = float(np.sin(np.pi * gone))
        nearness = (1.0 if self.place == 0 else -1.0) * (1.0 if self.alone or self.events else 0.2)
        return x, nearness, walk


def _smooth(share: float) -> float:
    return share * share * (3 - 2 * share)


def _blink(since: float) -> float:
    """0 open … 1 closed, `since` seconds after the blink began: closes fast, rests shut, opens slower."""
    if not 0 < since < 0.36:
        return 0.0
    return min(_smooth(min(since / 0.1, 1.0)), _smooth(min((0.36 - since) / 0.16, 1.0)))
