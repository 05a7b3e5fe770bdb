"""How a live line stays inside its latency budget: it looks less often, then shows fewer pictures."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from statistics import median

CADENCES = (1, 2, 4, 8)
"""How seldom the detector may look: at every n-th picture."""
STRIDES = (1, 2, 3, 4)
"""Of how many pictures one is shown."""
_WINDOW = 8
_CALM = 50
_EASY = 0.6
_IDLE_SECONDS = 1.0


@dataclass
class Pace:
    """Decides from what was measured; knows no clock of its own.

    Over budget (the median of the last eight delays), the detector's cadence is lowered step by step, then the frame
    rate. After fifty pictures in a row under 60 % of the budget one step is taken back. While no face is seen for a
    second, every second picture is left out.

    Parameters
    ----------
    budget: seconds from a picture's arrival until it is handed to the encoder.
    """

    budget: float
    _level: int = 0
    _delays: deque[float] = field(default_factory=lambda: deque(maxlen=_WINDOW))
    _calm: int = 0
    _faceless_since: float | None = None
    _idle: bool = False

    @property
    def cadence(self) -> int:
        return CADENCES[min(self._level, len(CADENCES) - 1)]

    @property
    def stride(self) -> int:
        """Of how many pictures one is shown."""
        lowered = STRIDES[max(0, self._level - len(CADENCES) + 1)]
        return max(2, lowered) if self._idle else lowered

    def saw(self, at: float, delay: float, *, faces: bool) -> None:
        """A picture was shown `delay` seconds after it came, at `at` seconds; `faces`: whether it showed any."""
        self._note_faces(at, faces)
        self._delays.append(delay)
        self._calm = self._calm + 1 if delay < _EASY * self.budget else 0
        if len(self._delays) == _WINDOW and median(self._delays) > self.budget:
            self._turn(+1)
        elif self._calm >= _CALM:
            self._turn(-1)

    def _note_faces(self, at: float, faces: bool) -> None:
        if faces:
            self._faceless_since, self._idle = None, False
        elif self._faceless_since is None:
            self._faceless_since = at
        else:
            self._idle = at - self._faceless_since >= _IDLE_SECONDS

    def _turn(self, step: int) -> None:
        """One step, and a fresh look at what it did."""
        self._level = min(max(0, self._level + step), len(CADENCES) + len(STRIDES) - 2)
        self._delays.clear()
        self._calm = 0
