"""What each kind of work takes on the card while the whole line runs, by device events around it on its own stream.

Streams share the card, so that a stage's time holds what it waited for the others, and the stages together take longer
than the line.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from farm.faces.cuda.device import CudaKernels, cupy
from farm.inference.buckets import Buckets
from farm.worker.gpu_render import GpuRender

_CROPS = {64: "grey copies", 640: "letterbox", 256: "landmark crops"}
_WAITING = 64
"""Pairs of events that may be under way before the oldest is read."""


class StageEvents:
    """Milliseconds by stage since `start`; watches one slot from the moment it is made."""

    def __init__(self, slot: GpuRender) -> None:
        self._lock = threading.Lock()
        self._pairs: deque[tuple[str, Any, Any]] = deque()
        self._total: dict[str, float] = {}
        for eyes in slot._eyes:
            names = ("detector", "landmarks, second pass", "landmarks, first pass")
            for name, buckets in zip(names, eyes.buckets, strict=True):
                self._network(buckets, eyes._kernels, name)
            self._kernels(eyes._kernels)
        self._network(slot.swapper, slot._hand, "swap network")
        self._kernels(slot._hand)

    def start(self) -> None:
        """Forget what was seen so far."""
        with self._lock:
            self._drain(0)
            self._total.clear()

    def milliseconds(self) -> dict[str, float]:
        """By stage, the largest first."""
        with self._lock:
            self._drain(0)
            return dict(sorted(self._total.items(), key=lambda item: -item[1]))

    def _network(self, buckets: Buckets, kernels: CudaKernels, name: str) -> None:
        self._wrap(buckets, "_run_all", kernels.handle, lambda *_, **__: name)

    def _kernels(self, kernels: CudaKernels) -> None:
        crops = lambda *_, side, **__: _CROPS.get(side, "swap crops")  # noqa: E731
        for method, named in (("crop", crops), ("match", _always("colour match")), ("paste", _always("paste"))):
            self._wrap(kernels, method, kernels.handle, named)

    def _wrap(self, owner: Any, method: str, stream: Any, named: Callable[..., str]) -> None:
        inner = getattr(owner, method)

        def timed(*given: Any, **told: Any) -> Any:
            before, after = (cupy().cuda.Event() for _ in range(2))
            before.record(stream)
            made = inner(*given, **told)
            after.record(stream)
            with self._lock:
                self._pairs.append((named(*given, **told), before, after))
                self._drain(_WAITING)
            return made

        setattr(owner, method, timed)

    def _drain(self, left: int) -> None:
        while len(self._pairs) > left:
            name, before, after = self._pairs.popleft()
            after.synchronize()
            self._total[name] = self._total.get(name, 0.0) + cupy().cuda.get_elapsed_time(before, after)


def _always(name: str) -> Callable[..., str]:
    return lambda *_, **__: name
