"""Stages that run side by side, joined by bounded queues: a slow stage holds the others back, none can run ahead."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable
from queue import SimpleQueue
from types import TracebackType
from typing import Generic, Self, TypeVar

T = TypeVar("T")


class _End:
    """Put last into a queue: the stream ended, with `error` if it broke."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error


class _Channel(Generic[T]):
    """A queue from one thread to another with room for `size` items, in which both wait without a lock of Python's.

    `queue.Queue` guards itself with one: who holds it and waits for the interpreter makes the other wait twice. Beside
    a card's line that cost an encoder half a millisecond a frame.
    """

    def __init__(self, size: int) -> None:
        self._items: SimpleQueue[T] = SimpleQueue()
        self._room: SimpleQueue[None] = SimpleQueue()
        self._closed = False
        for _ in range(size):
            self._room.put(None)

    def put(self, item: T) -> bool:
        """Waits for room; False, and the item is dropped, once the channel is closed."""
        if not self._closed:
            self._room.get()
        if self._closed:
            self._room.put(None)  # for whoever waits beside this one
            return False
        self._items.put(item)
        return True

    def get(self) -> T:
        item = self._items.get()
        self._room.put(None)
        return item

    def close(self) -> None:
        """Whoever puts, or waits to, is sent away."""
        self._closed = True
        self._room.put(None)

    def __len__(self) -> int:
        return self._items.qsize()


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
    handed: _Channel[T | _End] = _Channel(size)

    def produce() -> None:
        error: BaseException | None = None
        iterator = iter(items)
        try:
            for item in iterator:
                if not handed.put(item):
                    break
        except BaseException as caught:
            error = caught
        finally:
            close = getattr(iterator, "close", None)
            if close is not None:
                close()
            handed.put(_End(error))

    thread = threading.Thread(target=produce, name="stage-ahead", daemon=True)
    thread.start()
    try:
        while True:
            item = handed.get()
            if isinstance(item, _End):
                if item.error is not None:
                    raise item.error
                return
            depth.value = len(handed)
            yield item
    finally:
        handed.close()
        thread.join()


class Behind(Generic[T]):
    """Feed `consume` in a thread of its own, at most `size` items behind the producer.

    An error in `consume` is raised by the next `put` or at the end of the `with` block. When the block itself breaks,
    what is queued is dropped.
    """

    def __init__(self, consume: Callable[[T], None], size: int) -> None:
        self._consume = consume
        self._handed: _Channel[T | _End] = _Channel(size)
        self._error: BaseException | None = None
        self._abandoned = False
        self._thread = threading.Thread(target=self._run, name="stage-behind", daemon=True)

    @property
    def depth(self) -> int:
        """How many items wait."""
        return len(self._handed)

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
