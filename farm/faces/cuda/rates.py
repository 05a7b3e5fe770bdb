"""How long each stage of a render was busy, for how many frames."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from time import perf_counter


@dataclass
class Rates:
    """Seconds and frames by stage since it was made; stages may run in threads of their own."""

    clock: Callable[[], float] = perf_counter
    seconds: dict[str, float] = field(default_factory=dict)
    frames: dict[str, int] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def add(self, stage: str, seconds: float, frames: int) -> None:
        with self._lock:
            self.seconds[stage] = self.seconds.get(stage, 0.0) + seconds
            self.frames[stage] = self.frames.get(stage, 0) + frames

    @contextmanager
    def timed(self, stage: str, frames: int) -> Iterator[None]:
        start = self.clock()
        try:
            yield
        finally:
            self.add(stage, self.clock() - start, frames)

    def fps(self) -> dict[str, float]:
        """Frames a second that each stage alone would reach."""
        with self._lock:
            return {stage: self.frames[stage] / busy for stage, busy in self.seconds.items() if busy > 0}
