"""How much processor time an attempt may take without getting anywhere: a plate on which a decoder spins must end."""

from __future__ import annotations

import time
from collections.abc import Callable

from farm.db.enums import TaskKind
from farm.errors import FarmError, InputError

SECONDS = 900.0
"""Of one core. Opening networks on a new card takes a minute of it, the slowest frame of a plate a few seconds."""
LIMITED = frozenset({TaskKind.PLAN, TaskKind.CAST, TaskKind.RENDER})
"""What decodes plates. A merge decodes what the farm itself has made, under deadlines of its own."""


class ProcessorLimit:
    """Begins anew with every progress. `clock` gives the seconds that all threads of this process have taken."""

    def __init__(
        self, kind: TaskKind, where: str, *, seconds: float = SECONDS, clock: Callable[[], float] = time.process_time
    ) -> None:
        self._kind, self._where, self._seconds, self._clock = kind, where, seconds, clock
        self._since = clock()
        self._seen: tuple[int, str] | None = None

    def overrun(self, done: int, note: str) -> FarmError | None:
        """The error to end with, where this much is done; None while there is time.

        In a plan nothing but the plate can be the cause. In other tasks workers differ, so another one may try.
        """
        now = self._clock()
        if self._kind not in LIMITED or (done, note) != self._seen:
            self._seen, self._since = (done, note), now
            return None
        if now - self._since <= self._seconds:
            return None
        kind = InputError if self._kind is TaskKind.PLAN else FarmError
        return kind(
            f"After frame {done} it took {now - self._since:.0f} s of processor time and came no further.",
            where=self._where,
            do="Check the plate in a player at this place; write it anew with another tool if it plays.",
        )
