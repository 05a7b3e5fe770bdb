"""Calls: what was told to a job or a worker reaches the slots that it is about at once, however rarely they report.

Whoever pauses, cancels or requeues a job, or stops a worker, sends a notification of PostgreSQL with its commit
(`farm.jobs.ledger.call`). Each worker's program listens on one connection and leaves a mark in a folder of its
machine; its slots look at the marks of their own job and worker twice a second, which asks nobody. A call that is not
heard costs time and nothing else: the next report brings the same answer.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import structlog
from sqlalchemy import Engine

from farm.jobs.ledger import CALLS_CHANNEL

log = structlog.get_logger(__name__)

KEPT_SECONDS = 3600.0
AGAIN_SECONDS = 2.0
_LOOK_SECONDS = 1.0
_PING_SECONDS = 10.0


class Calls:
    """Marks of this machine, one small file for each name that was called."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def mark(self, name: str) -> None:
        """Say that `name` (the id of a job or a worker) was called just now."""
        self._path(name).write_text(str(time.monotonic_ns()))

    def heard(self, name: str) -> str:
        """A word that changes with every call of `name`; "" before the first."""
        try:
            return self._path(name).read_text()
        except FileNotFoundError:
            return ""

    def sweep(self, seconds: float = KEPT_SECONDS) -> None:
        """Remove old marks, which nobody can still be waiting for."""
        horizon = time.time() - seconds
        for path in self._folder.iterdir():
            if path.stat().st_mtime < horizon:
                path.unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self._folder / hashlib.sha256(name.encode()).hexdigest()[:32]


class Ear:
    """Says whether one of a few names was called since the last look."""

    def __init__(self, calls: Calls, *names: str) -> None:
        self._calls = calls
        self._names = names
        self._before = self._now()

    def __call__(self) -> bool:
        now = self._now()
        called, self._before = now != self._before, now
        return called

    def _now(self) -> list[str]:
        return [self._calls.heard(name) for name in self._names]


class Listener:
    """Hears calls on a connection of its own, from a thread, and hands their names to `hear`, until it is stopped."""

    def __init__(self, engine: Engine, hear: Callable[[str], object]) -> None:
        self._engine = engine
        self._hear = hear
        self._stop = threading.Event()
        self.listening = threading.Event()
        self._thread = threading.Thread(target=self._run, name="calls", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._listen()
            except Exception as error:  # whatever a database that is away makes of a connection
                log.warning("calls are not heard; reports bring them", error=type(error).__name__)
            self.listening.clear()
            self._stop.wait(AGAIN_SECONDS)

    def _listen(self) -> None:
        connection = self._engine.raw_connection()
        try:
            line = connection.driver_connection
            assert isinstance(line, psycopg.Connection)  # noqa: S101  (narrows the type: the engine is psycopg's)
            line.rollback()
            line.set_autocommit(True)
            line.execute(f"LISTEN {CALLS_CHANNEL}")
            self.listening.set()
            pinged = time.monotonic()
            while not self._stop.is_set():
                for call in line.notifies(timeout=_LOOK_SECONDS):
                    self._hear(call.payload)
                if time.monotonic() - pinged > _PING_SECONDS:  # a line that is dead says nothing by itself
                    line.execute("SELECT 1")
                    pinged = time.monotonic()
        finally:
            connection.invalidate()  # it listens: not for the pool
            connection.close()
