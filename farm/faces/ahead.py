"""Working ahead with a pool of threads, in order and in bounded memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

A = TypeVar("A")
B = TypeVar("B")


def ahead(pool: ThreadPoolExecutor, work: Callable[[A], B], items: Iterable[A], depth: int) -> Iterator[B]:
    """`work` of each item, in order, with up to `depth` items begun before their turn."""
    begun: deque[Future[B]] = deque()
    try:
        for item in items:
            begun.append(pool.submit(work, item))
            if len(begun) >= depth:
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()
    finally:
        for future in begun:
            future.cancel()
