"""Pinned memory that the card copies to, handed out again when nobody looks at it any more."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

_LEAST = 1 << 12


class PinnedPool:
    """Pieces of pinned memory by size; nothing is given back to the system, so that steady work allocates nothing.

    allocate: pinned memory of so many bytes, with a buffer and an address `ptr`. May be used by several threads.
    """

    def __init__(self, allocate: Callable[[int], Any]) -> None:
        self._allocate = allocate
        self._free: dict[int, deque[Any]] = {}

    def take(self, size: int) -> Any:
        """At least `size` bytes; whoever takes them calls `give` when the card and he are done with them."""
        free = self._free.setdefault(_rounded(size), deque())
        try:
            return free.pop()
        except IndexError:
            return self._allocate(_rounded(size))

    def give(self, memory: Any, size: int) -> None:
        self._free[_rounded(size)].append(memory)

    def array(self, shape: tuple[int, ...], dtype: Any) -> tuple[NDArray[Any], int]:
        """An array of its own and its address; the memory comes back when the last view of it is gone."""
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        memory = self.take(size)
        flat = np.frombuffer(memory, np.uint8, size)
        weakref.finalize(flat, self.give, memory, size).atexit = False
        return flat.view(dtype).reshape(shape), int(memory.ptr)


def _rounded(size: int) -> int:
    """The next eighth of a power of two, so that neighbouring sizes share their pieces."""
    step = max(_LEAST, 1 << max(0, size.bit_length() - 4))
    return -(-size // step) * step
