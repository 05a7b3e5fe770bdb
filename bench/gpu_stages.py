"""What each kind of work takes on the card while the whole line runs, by device events around it on its own stream.

Streams share the card, so that a stage's time holds what it waited for the others, and the stages together take longer
than the line.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Self

from farm.faces.cuda.compiled import cupy
from farm.faces.cuda.networks import CardNetworks, Stage
from farm.inference.buckets import Buckets

_CROPS = {64: "grey copies", 640: "letterbox", 256: "landmark crops", 112: "embedding crops", 192: "palm crops"}
_WAITING = 64
"""Pairs of events that may be under way before the oldest is read."""


class StageEvents:
    """Milliseconds by stage of what a slot's networks do inside the `with` block."""

    def __init__(self, networks: CardNetworks) -> None:
        self._networks = networks
        self._lock = threading.Lock()
        self._pairs: deque[tuple[str, Any, Any]] = deque()
        self._total: dict[str, float] = {}
        self._wrapped: list[tuple[Any, str]] = []

    def __enter__(self) -> Self:
        for eye in self._networks.eyes:
            first, rough, level, *rest = eye.open
            for name, buckets in (
                ("detector", first), ("landmarks, first pass", rough), ("landmarks, second pass", level),
                *(("embeddings and palms", buckets) for buckets in rest),
            ):  # fmt: skip
                self._network(buckets, eye, name)
            self._kernels(eye)
        hand, fetch = self._networks.hand, self._networks.fetch
        self._network(self._networks.swapper.buckets, hand, "swap network")
        self._kernels(hand)
        for method in ("overlay", "planes"):
            self._wrap(fetch.kernels, method, fetch, _always("label, and fetching"))
        return self

    def __exit__(self, *_: object) -> None:
        for owner, method in self._wrapped:
            delattr(owner, method)

    def milliseconds(self) -> dict[str, float]:
        """By stage, the largest first."""
        with self._lock:
            self._drain(0)
            return dict(sorted(self._total.items(), key=lambda item: -item[1]))

    def _network(self, buckets: Buckets, stage: Stage, name: str) -> None:
        self._wrap(buckets, "_run_all", stage, _always(name))

    def _kernels(self, stage: Stage) -> None:
        crops = lambda *_, side, **__: _CROPS.get(side, "swap crops")  # noqa: E731
        self._wrap(stage.kernels, "crop", stage, crops)
        for method, named in (("usable", "check"), ("recolour", "colour match"), ("paste", "paste")):
            self._wrap(stage.kernels, method, stage, _always(named))

    def _wrap(self, owner: Any, method: str, stage: Stage, named: Callable[..., str]) -> None:
        inner, stream = getattr(owner, method), stage.kernels.handle  # type: ignore[attr-defined]

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
        self._wrapped.append((owner, method))

    def _drain(self, left: int) -> None:
        while len(self._pairs) > left:
            name, before, after = self._pairs.popleft()
            after.synchronize()
            self._total[name] = self._total.get(name, 0.0) + cupy().cuda.get_elapsed_time(before, after)


def _always(name: str) -> Callable[..., str]:
    return lambda *_, **__: name
