"""How a worker's program ends: told by a signal, or by a notice that its machine is taken away."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import structlog

from farm.worker.notice import Notice

log = structlog.get_logger(__name__)

TEND_SECONDS = 1.0
LAST_SECONDS = 10.0
"""Before a machine goes: what is not finished by then is handed back at once."""


class Leaver(Protocol):
    """What ends: `farm.worker.__main__.Running`."""

    def tend(self) -> None: ...

    def ask_to_stop(self) -> None: ...

    def see_off(self, why: str) -> bool: ...

    def hand_back(self, why: str) -> None: ...

    def wait(self, why: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Goodbye:
    """Why the program ends, and how many seconds its machine is there for; None: as long as it takes."""

    why: str
    seconds: float | None = None


def watch(
    workers: Sequence[Leaver],
    stop: threading.Event,
    notice: Notice,
    chore: Callable[[], object],
    seconds: float = TEND_SECONDS,
) -> Goodbye:
    """Tend the workers, and do the `chore`, until the program is told to stop or a notice comes."""
    while True:
        for worker in workers:
            worker.tend()
        chore()
        if stop.wait(seconds):
            return Goodbye("It was told to stop.")
        left = notice.seconds_left()
        if left is not None:
            log.warning("this machine is to be taken away", seconds=round(left))
            return Goodbye("Its machine is taken away.", left)


def drain(
    workers: Sequence[Leaver],
    goodbye: Goodbye,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Let the workers finish or hand back what they have, and wait for their end.

    They take nothing more. Where the machine is gone in less than ten seconds, or once only ten are left, what they
    have is handed back at once, so that others begin with it without waiting for the leases to run out.
    """
    by = None if goodbye.seconds is None else clock() + goodbye.seconds - LAST_SECONDS
    for worker in workers:
        worker.ask_to_stop()
    going = list(workers)
    while going := [worker for worker in going if not worker.see_off(goodbye.why)]:
        if by is not None and clock() >= by:
            for worker in going:
                worker.hand_back(goodbye.why)
            break
        sleep(TEND_SECONDS)
    for worker in workers:
        worker.wait(goodbye.why)
