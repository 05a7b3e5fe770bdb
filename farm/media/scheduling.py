"""Keeps the process in the scheduling class that it was started in, whatever an encoder asks for.

SVT-AV1, where it may (as root), makes its threads real-time ones of the highest priority, and the thread that opens it
first as well, for good: to see whether it may. Processes inherit that. Real-time threads of one priority do not take
turns, so that a render would keep heartbeats, the queue and the database beside it from the processor for minutes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_THREADS = Path("/proc/self/task")
_REAL_TIME = (os.SCHED_FIFO, os.SCHED_RR)


@contextmanager
def as_it_was() -> Iterator[None]:
    """For the opening of an encoder: afterwards no thread is real-time that was not so before.

    Those that are get the class of the thread that entered the block.
    """
    mine = os.sched_getscheduler(0), os.sched_getparam(0)
    before = real_time_threads()
    try:
        yield
    finally:
        for thread in real_time_threads() - before:
            with suppress(ProcessLookupError):  # it has ended
                os.sched_setscheduler(thread, *mine)


def real_time_threads() -> set[int]:
    """Ids of this process's threads that run in a real-time class."""
    found = set()
    for entry in _THREADS.iterdir():
        with suppress(ProcessLookupError):
            if os.sched_getscheduler(int(entry.name)) in _REAL_TIME:
                found.add(int(entry.name))
    return found
