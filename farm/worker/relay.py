"""Slots say with their own reports that their worker lives, so that its program need not do so by calls of its own.

The worker's program notes once a second that all is well and when its worker is to be heard of next; a slot that
reports last before then says it too, and notes that it did. Where no slot is at work, something is wanted of the
worker or the program is gone, nobody says it for it: then the program does, or it is right that it is not said.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

FRESH_SECONDS = 10.0
"""A program that has noted nothing for so long is not said to live."""
PATIENCE = 0.25
"""What a program waits for its slots beyond the time at which it is due, as a share of the interval."""


@dataclass(frozen=True, slots=True)
class Note:
    """Written at `at`, about `seconds` from then on, both of the machine's monotonic clock, which all of it share."""

    at: float
    seconds: float


class Relay:
    """Notes of one worker in a folder of its machine."""

    def __init__(self, folder: Path, worker: str, clock: Callable[[], float] = time.monotonic) -> None:
        name = hashlib.sha256(worker.encode()).hexdigest()[:32]
        self._well = folder / f"{name}.well"
        self._told = folder / f"{name}.told"
        self._clock = clock
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def well(self, due: float) -> None:
        """Of the program: all is well, and the worker is to be heard of at `due`."""
        now = self._clock()
        self._write(self._well, Note(now, due - now))

    def unwell(self) -> None:
        """Of the program: what is to be said of the worker only it can say."""
        self._well.unlink(missing_ok=True)

    def last(self) -> Note | None:
        """When a slot has last said that the worker lives, and after how many seconds it is to be said again."""
        return self._read(self._told)

    def is_wanted(self, next_seconds: float) -> bool:
        """Of a slot that reports now and again in `next_seconds`: whether it has to say that the worker lives."""
        note, now = self._read(self._well), self._clock()
        return note is not None and 0 <= now - note.at < FRESH_SECONDS and now + next_seconds >= note.at + note.seconds

    def told(self, seconds: float) -> None:
        """Of a slot: the worker was said to live; it is to be said again after `seconds`."""
        self._write(self._told, Note(self._clock(), seconds))

    def _write(self, path: Path, note: Note) -> None:
        beside = path.with_suffix(f".{os.getpid()}")
        beside.write_text(f"{note.at} {note.seconds}")
        beside.replace(path)

    def _read(self, path: Path) -> Note | None:
        try:
            at, seconds = path.read_text().split()
            return Note(float(at), float(seconds))
        except (FileNotFoundError, ValueError):
            return None
