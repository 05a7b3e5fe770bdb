"""Time stamps of decoded frames: libavcodec's best-effort guess, and a clock that never steps back."""

from __future__ import annotations

from statistics import median

import numpy as np
from numpy.typing import NDArray

from farm.media.decoder import Stamp


class BestEffort:
    """Chooses between a frame's pts and the dts of the packet that released it, as libavcodec's
    `best_effort_timestamp` does: whichever of the two clocks has stood or stepped back less often so far."""

    def __init__(self, stamps: list[Stamp]) -> None:
        self._stamps = stamps
        self._last = {"pts": -(1 << 62), "dts": -(1 << 62)}
        self._faults = {"pts": 0, "dts": 0}

    def next(self, ordinal: int, trigger: int | None) -> int | None:
        """The time stamp of the next frame in output order; None where neither clock says anything."""
        pts = self._stamps[ordinal].pts
        dts = self._stamps[trigger].dts if trigger is not None and trigger < len(self._stamps) else None
        self._note("dts", dts, pts)
        self._note("pts", pts, dts)
        if pts is not None and (dts is None or self._faults["pts"] <= self._faults["dts"]):
            return pts
        return dts

    def _note(self, clock: str, value: int | None, other: int | None) -> None:
        if value is not None:
            self._faults[clock] += value <= self._last[clock]
            self._last[clock] = value
        elif other is not None:
            self._last[clock] = other


class Unroller:
    """Makes time stamps strictly increasing.

    A step back by more than a few frames is a new clock (spliced transport streams): what follows is moved so that it
    goes on one frame after the last. A smaller one, and a missing stamp, is mended for that frame alone. `anew` is the
    first frame of the second clock, and its own time stamp there; None where there is one clock only.
    """

    _LASTING_FRAMES = 4

    def __init__(self, stamps: list[Stamp]) -> None:
        ticks = [s.duration for s in stamps if s.duration > 0]
        self._step = int(median(ticks)) if ticks else _usual_step(stamps)
        self._offset = 0
        self._last: int | None = None
        self._frames = 0
        self.anew: tuple[int, int] | None = None

    def next(self, pts: int | None) -> int:
        self._frames += 1
        if self._last is None:
            self._last = pts if pts is not None else 0
            return self._last
        if pts is None:
            moved = self._last + self._step
        else:
            moved = pts + self._offset
            if moved <= self._last - self._LASTING_FRAMES * self._step:
                self._offset += self._last + self._step - moved
                self.anew = self.anew or (self._frames - 1, pts)
                moved = self._last + self._step
        self._last = max(moved, self._last + 1)
        return self._last


def _usual_step(stamps: list[Stamp]) -> int:
    pts = sorted({s.pts for s in stamps if s.pts is not None})
    steps = np.diff(pts) if len(pts) > 1 else np.array([1])
    return max(1, int(np.median(steps)))


def durations(pts: NDArray[np.int64], last: int) -> NDArray[np.int64]:
    """How long each frame stays: until the next; the last one for its packet's duration or the median."""
    steps = np.diff(pts)
    tail = last if last > 0 else max(1, int(np.median(steps))) if len(steps) else 1
    return np.append(steps, np.int64(tail)).astype(np.int64)
