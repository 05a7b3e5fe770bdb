"""Small tables on their way to the card."""

from __future__ import annotations

import ctypes
from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farm.faces.cuda.compiled import cupy

_ALIGNED = 256


def sleeping_event() -> Any:
    """An event on which threads wait asleep."""
    return cupy().cuda.Event(block=True, disable_timing=True)


class Staging:
    """Small tables on their way to the card: pinned memory and device memory in turn, reused when the card is done."""

    def __init__(self, stream: Any, *, size: int = 4 << 20, turns: int = 8) -> None:
        cp = cupy()
        self._stream = stream
        self.size = size
        self._turns: deque[tuple[Any, Any, Any]] = deque(
            (cp.cuda.alloc_pinned_memory(size), cp.cuda.alloc(size), sleeping_event()) for _ in range(turns)
        )

    def put(self, *tables: NDArray[Any]) -> list[Any]:
        """Device views of the tables; they hold until `turns` - 1 more calls were made and the card caught up."""
        cp = cupy()
        pinned, device, done = self._turns[0]
        self._turns.rotate(-1)
        done.synchronize()
        views, offset = [], 0
        for table in tables:
            np.frombuffer(pinned, table.dtype, table.size, offset).reshape(table.shape)[...] = table
            views.append(cp.ndarray(table.shape, table.dtype, device + offset))
            offset += -(-table.nbytes // _ALIGNED) * _ALIGNED
        device.copy_from_host_async(ctypes.c_void_p(pinned.ptr), offset, self._stream)
        return views

    def used(self) -> None:
        """The work that reads the last `put` has been given to the stream."""
        self._turns[-1][2].record(self._stream)
