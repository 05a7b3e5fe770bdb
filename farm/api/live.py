"""Server-sent events: a job's changes as they are committed, until the job is final."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Protocol

from farm.api.problems import BusyError
from farm.api.schemas import EventOut

POLL_SECONDS = 0.4
# A client that went away is only noticed by writing to it.
HEARTBEAT_SECONDS = 5.0
RETRY_MILLISECONDS = 2000
BATCH = 200


class EventSource(Protocol):
    """Reads a job's events after an id, oldest first, and says whether the job is final."""

    def __call__(self, after: int, /) -> tuple[list[EventOut], bool]: ...


class Gate:
    """Bounds the live views, so that they never hold every thread of the API."""

    def __init__(self, most: int) -> None:
        self._free = threading.BoundedSemaphore(most)

    def enter(self) -> None:
        if not self._free.acquire(blocking=False):
            raise BusyError(
                "All live views are in use.", where="events", do="Try again in a moment, or ask for the job instead."
            )

    def leave(self) -> None:
        self._free.release()


def stream(
    source: EventSource,
    after: int,
    *,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[str]:
    """The text of the stream. Each event has its id, so that a client that comes back misses none and gets none twice.

    Reading "final" before the events would lose those between the two reads; `source` reads them in that order.
    """
    yield f"retry: {RETRY_MILLISECONDS}\n\n"
    spoke = clock()
    while True:
        events, final = source(after)
        for event in events:
            after = event.id
            yield f"id: {event.id}\nevent: change\ndata: {event.model_dump_json()}\n\n"
            spoke = clock()
        if len(events) == BATCH:
            continue
        if final:
            yield f"id: {after}\nevent: end\ndata: {{}}\n\n"
            return
        if clock() - spoke >= HEARTBEAT_SECONDS:
            yield ": still here\n\n"
            spoke = clock()
        sleep(POLL_SECONDS)


class Closing:
    """An iterator that calls `close` once when it ends or is closed, also if it was never started."""

    def __init__(self, items: Iterator[str], close: Callable[[], None]) -> None:
        self._items = items
        self._close = close
        self._closed = False

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        try:
            return next(self._items)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._close()
