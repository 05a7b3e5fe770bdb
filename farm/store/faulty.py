"""A store that fails when it is told to: wraps a real one for fault injection."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO, Protocol, TypeVar

from farm.errors import InfrastructureError
from farm.store.base import ObjectInfo, Store

T = TypeVar("T")


class Fault(StrEnum):
    """BEFORE: not done, and says so. AFTER: done, but says that it failed. MISSING: a head that sees nothing yet."""

    BEFORE = "before"
    AFTER = "after"
    MISSING = "missing"


class FaultPlan(Protocol):
    """Decides the fate of one call; `method` is a name of the Store protocol."""

    def __call__(self, method: str, key: str) -> Fault | None: ...


class Script:
    """Faults for chosen calls: the n-th call of a method (from 1) meets its fault once."""

    def __init__(self, faults: dict[tuple[str, int], Fault]) -> None:
        self._faults = dict(faults)
        self._calls: dict[str, int] = {}

    def __call__(self, method: str, key: str) -> Fault | None:
        self._calls[method] = self._calls.get(method, 0) + 1
        return self._faults.pop((method, self._calls[method]), None)

    @property
    def left(self) -> int:
        """How many faults have not happened."""
        return len(self._faults)


class Dice:
    """Faults by chance, the same ones for the same seed and order of calls."""

    def __init__(self, seed: int, rate: float) -> None:
        self._random = random.Random(seed)  # noqa: S311
        self._rate = rate

    def __call__(self, method: str, key: str) -> Fault | None:
        if self._random.random() >= self._rate:
            return None
        choices = [Fault.BEFORE, Fault.AFTER] + ([Fault.MISSING] if method == "head" else [])
        return self._random.choice(choices)


class FaultyStore:
    """The Store `inner` under a fault plan."""

    def __init__(self, inner: Store, plan: FaultPlan) -> None:
        self._inner = inner
        self._plan = plan

    def put_file(self, key: str, path: Path, *, content_type: str = "application/octet-stream") -> ObjectInfo:
        return self._call("put_file", key, lambda: self._inner.put_file(key, path, content_type=content_type))

    def put_bytes(self, key: str, data: bytes, *, content_type: str = "application/octet-stream") -> ObjectInfo:
        return self._call("put_bytes", key, lambda: self._inner.put_bytes(key, data, content_type=content_type))

    def get_file(self, key: str, path: Path) -> ObjectInfo:
        return self._call("get_file", key, lambda: self._inner.get_file(key, path))

    def get_bytes(self, key: str) -> bytes:
        return self._call("get_bytes", key, lambda: self._inner.get_bytes(key))

    def open(self, key: str, *, start: int = 0, end: int | None = None) -> BinaryIO:
        return self._call("open", key, lambda: self._inner.open(key, start=start, end=end))

    def head(self, key: str) -> ObjectInfo | None:
        fault = self._plan("head", key)
        return None if fault is Fault.MISSING else self._meet(fault, lambda: self._inner.head(key))

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        return self._call("list", prefix, lambda: self._inner.list(prefix))

    def delete(self, key: str) -> None:
        self._call("delete", key, lambda: self._inner.delete(key))

    def delete_prefix(self, prefix: str) -> int:
        return self._call("delete_prefix", prefix, lambda: self._inner.delete_prefix(prefix))

    def signed_url(self, key: str, *, expires: timedelta, filename: str | None = None) -> str:
        return self._call("signed_url", key, lambda: self._inner.signed_url(key, expires=expires, filename=filename))

    def abort_stale_uploads(self, *, older_than: timedelta) -> int:
        return self._call("abort_stale_uploads", "", lambda: self._inner.abort_stale_uploads(older_than=older_than))

    def _call(self, method: str, key: str, act: Callable[[], T]) -> T:
        return self._meet(self._plan(method, key), act)

    def _meet(self, fault: Fault | None, act: Callable[[], T]) -> T:
        if fault is Fault.BEFORE:
            raise _injected("not done")
        result = act()
        if fault is Fault.AFTER:
            raise _injected("done all the same")
        return result


def _injected(what: str) -> InfrastructureError:
    return InfrastructureError(f"Injected fault: {what}.", where="store", do="Try again.")
