"""Stages that run side by side, joined by bounded queues: a slow stage holds the others back, none can run ahead."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Iterable
from types import TracebackType
from typing import Generic, Self, TypeVar

T = TypeVar("T")


class _End:
    """Put last into a queue: the stream ended, with `error` if it broke."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error


class Depth:
    """How many items wait in a queue, as its consumer last saw it."""

    def __init__(self) -> None:
        self.value = 0


def ahead(items: Iterable[T], size: int, depth: Depth | None = None) -> Generator[T, None, None]:
    """Iterate `items` in a thread of its own, at most `size` of them ahead of the consumer; `depth` tells how many are.

    An error in `items` is raised here, after the items before it. Closing the iterator early stops the thread and
    closes `items`.
    """
    depth = depth or Depth()
    handed: queue.Queue[T | _End] = queue.Queue(maxsize=size)
    stopped = threading.Event()

    def put(item: T | _End) -> bool:
        while not stopped.is_set():
            try:
                handed.put(item, timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

    def produce() -> None:
        error: BaseException | None = None
        iterator = iter(items)
        try:
            for item in iterator:
                if not put(item):
                    break
        except BaseException as caught:
            error = caught
        finally:
            close = getattr(iterator, "close", None)
            if close is not None:
                close()
            put(_End(error))

    thread = threading.Thread(target=produce, name="stage-ahead", daemon=True)
    thread.start()
    try:
        while True:
            item = handed.get()
            if isinstance(item, _End):
                if item.error is not None:
                    raise item.error
                return
            depth.value = handed.qsize()
            yield item
    finally:
        stopped.set()
        thread.join()


class Behind(Generic[T]):
    """Feed `consume` in a thread of its own, at most `size` items behind the producer.

    An error in `consume` is raised by the next `put` or at the end of the `with` block. When the block itself breaks,
    what is queued is dropped.
    """

    def __init__(self, consume: Callable[[T], None], size: int) -> None:
        self._consume = consume
        self._handed: queue.Queue[T | _End] = queue.Queue(maxsize=size)
        self._error: BaseException | None = None
        self._abandoned = False
        self._thread = threading.Thread(target=self._run, name="stage-behind", daemon=True)

    @property
    def depth(self) -> int:
        """How many items wait."""
        return self._handed.qsize()

    def put(self, item: T) -> None:
        if self._error is not None:
            raise self._error
        self._handed.put(item)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._abandoned = error is not None
        self._handed.put(_End())
        self._thread.join()
        if error is None and self._error is not None:
            raise self._error

    def _run(self) -> None:
        while not isinstance(item := self._handed.get(), _End):
            if self._error is None and not self._abandoned:
                try:
                    self._consume(item)
                except BaseException as caught:
                    self._error = caught  # go on taking, so that the producer never blocks on a full queue
