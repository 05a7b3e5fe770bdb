"""How many of a worker's slots may work: each slot takes a numbered seat, and the program that watches them says up to
which number seats count. So a card that is too hot gets fewer slots without anything being killed.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

from farm.worker.telemetry import Reading

_MOST = 256
HOT_SECONDS = 10.0
COOL_SECONDS = 60.0


class Seats:
    """One worker's seats, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held: int | None = None
        self._number = -1

    def take(self) -> int:
        """The lowest free seat; held for as long as this process lives."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for number in range(_MOST):
            held = os.open(self._folder / f"seat-{number}", os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(held)
                continue
            self._held, self._number = held, number
            return number
        return _MOST

    def may_work(self) -> bool:
        """Whether this process's seat counts now."""
        return self._number < self.allowed()

    def allowed(self) -> int:
        try:
            return int((self._folder / "allowed").read_text())
        except (OSError, ValueError):
            return _MOST

    def allow(self, count: int) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        beside = self._folder / "allowed.new"
        beside.write_text(str(count))
        beside.replace(self._folder / "allowed")


class Heat:
    """How many slots a card is given by what it says of heat and power.

    One slot less for every ten seconds in which it is held back, one more for every minute in which it is not; never
    less than one.
    """

    def __init__(self, slots: int, clock: Callable[[], float]) -> None:
        self._slots = self.allowed = slots
        self._clock = clock
        self._hot: bool | None = None
        self._since = clock()

    def see(self, reading: Reading | None) -> int:
        """The slots that are allowed after this reading; a card that does not tell is taken as cool."""
        now, hot = self._clock(), bool(reading is not None and reading.throttled)
        if hot is not self._hot:
            self._hot, self._since = hot, now
        elif now - self._since >= (HOT_SECONDS if hot else COOL_SECONDS):
            self.allowed = max(1, self.allowed - 1) if hot else min(self._slots, self.allowed + 1)
            self._since = now
        return self.allowed
