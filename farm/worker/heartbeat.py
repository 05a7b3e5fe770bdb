"""The thread that keeps an attempt's lease alive and hears when the attempt has to stop."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

import structlog

from farm.errors import FarmError, InterruptedTaskError, StaleLeaseError

log = structlog.get_logger(__name__)

EXIT_DISOBEYED = 70
SUPERSEDED = "superseded"
LOOK_SECONDS = 0.5
"""How often a slot looks whether it was called; no database is asked."""


@dataclass(frozen=True, slots=True)
class Beat:
    """One report: frames done so far, how many a second since the last report, and what the attempt is busy with."""

    done: int
    rate: float | None
    note: str


class Answer(Protocol):
    """What the control plane says to a beat: `alive` False ends the attempt, `reason` says why.

    After "superseded" the task is somebody else's; after any other reason the attempt hands it back.
    """

    @property
    def alive(self) -> bool: ...

    @property
    def reason(self) -> str: ...

    @property
    def next_seconds(self) -> float:
        """When to report again: the more tasks run, the more rarely each does."""
        ...


class Heartbeat:
    """Beats every `seconds` while the `with` block runs; `check()` in the block raises when it has to stop.

    From the first answer on, the answers say how often.

    Parameters
    ----------
    beat: reports to the control plane, answers whether to go on; its errors are logged and tried again, since a
        database that is away for a moment ends no attempt (the lease decides).
    draining: says whether the worker was told to leave at once.
    called: says whether something is wanted of the attempt since it was last asked; then it reports at once.
    overrun: gets frames done and note, and gives the error to stop with when the attempt costs too much for that.
    grace: seconds that a stopped attempt has to come back before its process is ended: a call stuck in native code
        hears no exception. `give_up` is told of the error first, and has as long to pass it on.
    exit_process: ends this process; injected for tests.
    """

    def __init__(
        self,
        beat: Callable[[Beat], Answer],
        seconds: float,
        *,
        draining: Callable[[], bool] = lambda: False,
        called: Callable[[], bool] = lambda: False,
        overrun: Callable[[int, str], FarmError | None] = lambda done, note: None,
        give_up: Callable[[FarmError], None] = lambda error: None,
        grace: float = 30.0,
        exit_process: Callable[[int], object] = os._exit,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._beat = beat
        self._seconds = seconds
        self._draining = draining
        self._called = called
        self._overrun = overrun
        self._give_up = give_up
        self._grace = grace
        self._exit_process = exit_process
        self._clock = clock
        self._finished = threading.Event()
        self._stop: FarmError | None = None
        self._done = 0
        self._note = ""
        self._last = (0.0, 0)
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def progress(self, done: int, note: str) -> None:
        """Say how far the attempt is; goes out with the next beat."""
        self._done, self._note = done, note

    def check(self) -> None:
        """Raise StaleLeaseError, InterruptedTaskError or what `overrun` gave when this attempt has to stop.

        Cheap: call it per frame.
        """
        if self._stop is not None:
            raise self._stop

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._finished.set()
        self._thread.join()

    def _report(self) -> Beat:
        now, done = self._clock(), self._done
        since, before = self._last
        self._last = (now, done)
        rate = (done - before) / (now - since) if done > before and now > since else None
        return Beat(done, rate, self._note)

    def _pause(self) -> bool:
        """Wait for the next beat, or for a call that wants one now. Whether the block has ended."""
        left = self._seconds
        while left > 0 and not self._finished.wait(step := min(left, LOOK_SECONDS)) and not self._called():
            left -= step
        return self._finished.is_set()

    def _run(self) -> None:
        self._last = (self._clock(), self._done)
        while not self._pause():
            if self._draining():
                self._stop = InterruptedTaskError("The worker was told to leave.", do="The task is handed back.")
                break
            report = self._report()
            self._stop = self._overrun(report.done, report.note)
            if self._stop is not None:
                break
            try:
                answer = self._beat(report)
            except Exception as error:
                log.warning("heartbeat failed", error=str(error))
                continue
            self._seconds = answer.next_seconds or self._seconds
            if not answer.alive:
                kind = StaleLeaseError if answer.reason == SUPERSEDED else InterruptedTaskError
                self._stop = kind(f"The attempt has to stop: {answer.reason}.")
                break
        if self._stop is not None and not self._finished.wait(self._grace):
            log.error("attempt did not stop; ending the process", grace_seconds=self._grace)
            # On a thread of its own: a database that does not answer must not keep the process alive.
            telling = threading.Thread(target=self._give_up, args=(self._stop,), name="give-up", daemon=True)
            telling.start()
            telling.join(self._grace)
            self._exit_process(EXIT_DISOBEYED)
