"""How pictures become batches, with NumPy in CuPy's place and pictures that are only time stamps."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import farm.faces.cuda.lane as lane_module
from farm.faces.cuda.backend import NumpyKernels
from farm.faces.cuda.lane import BatchPool, FrameBatch, lane
from tests.unit.gpu.material import surface


class _Feed:
    """Writes each picture's time stamp into its place."""

    closed = 0

    def __init__(self, *_: Any) -> None: ...

    def put(self, picture: Any, array: Any, place: int) -> None:
        array[place] = picture.pts % 256

    def mark(self) -> str:
        return "there"

    def close(self) -> None:
        type(self).closed += 1


class _Decoder:
    """Pictures 0, 10, 20, ... from the key frame (every fourth) at or before `start`."""

    def __init__(self, count: int) -> None:
        self.count, self.closed = count, False

    def __call__(self, _: Any, __: str, *, start: int | None = None) -> Iterator[Any]:
        first = 0 if start is None else start // 40 * 4
        try:
            for index in range(first, self.count):
                yield SimpleNamespace(pts=index * 10)
        finally:
            self.closed = True


@pytest.fixture
def decoder(monkeypatch: pytest.MonkeyPatch) -> _Decoder:
    made = _Decoder(11)
    monkeypatch.setattr(lane_module, "cupy", lambda: np)
    monkeypatch.setattr(lane_module.nvdec, "pictures", made)
    monkeypatch.setattr(lane_module, "_HardwareFeed", _Feed)
    _Feed.closed = 0
    return made


def _all(pool: BatchPool, **part: int) -> list[list[int]]:
    seen = []
    for batch in lane(None, "nvdec", pool, **part):  # type: ignore[arg-type]
        assert batch.ready == "there"
        assert [int(batch.array[i, 0, 0]) for i in range(len(batch))] == [pts % 256 for pts in batch.pts]
        seen.append(batch.pts)
        pool.give_back(batch)
    return seen


def test_batches_are_full_but_for_the_last(decoder: _Decoder) -> None:
    assert [len(pts) for pts in _all(BatchPool(NumpyKernels(), surface(), 4, 2))] == [4, 4, 3]
    assert decoder.closed
    assert _Feed.closed == 1


def test_a_part_begins_and_ends_at_its_own_frames(decoder: _Decoder) -> None:
    assert _all(BatchPool(NumpyKernels(), surface(), 4, 2), first=50, last=80) == [[50, 60, 70]]


def test_memory_comes_back_when_nothing_is_left_for_it(decoder: _Decoder) -> None:
    decoder.count = 8
    pool = BatchPool(NumpyKernels(), surface(), 4, 1)
    assert [len(pts) for pts in _all(pool)] == [4, 4]
    assert isinstance(pool.take(), FrameBatch)


def test_a_lane_that_waits_for_memory_ends_when_the_pool_stops(decoder: _Decoder) -> None:
    pool = BatchPool(NumpyKernels(), surface(), 4, 1)
    held: list[FrameBatch] = []
    thread = threading.Thread(target=lambda: held.extend(lane(None, "nvdec", pool)))  # type: ignore[arg-type]
    thread.start()
    pool.stop()
    thread.join(10)
    assert not thread.is_alive()
    assert decoder.closed or not held
    pool.start()
    assert len(_all(pool)) == 3
