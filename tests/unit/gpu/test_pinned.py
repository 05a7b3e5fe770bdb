"""Memory that comes back when nobody looks at it any more."""

from __future__ import annotations

import numpy as np

from farm.faces.cuda.pinned import PinnedPool


class _Memory(bytearray):
    """A buffer with an address."""

    @property
    def ptr(self) -> int:
        return id(self)


class _System:
    def __init__(self) -> None:
        self.sizes: list[int] = []

    def __call__(self, size: int) -> _Memory:
        self.sizes.append(size)
        return _Memory(size)


def test_an_array_s_memory_is_another_s_as_soon_as_its_last_view_is_gone() -> None:
    system = _System()
    pool = PinnedPool(system)
    first, where = pool.array((3, 4, 5), np.uint16)
    first[...] = 7
    assert (first.shape, first.dtype) == ((3, 4, 5), np.uint16)
    view = first[1, :2]
    del first
    second, other = pool.array((3, 4, 5), np.uint16)
    assert other != where
    assert (view == 7).all()
    del view
    third, again = pool.array((60,), np.uint16)
    assert again == where
    assert len(system.sizes) == 2
    del second, third


def test_neighbouring_sizes_share_their_pieces() -> None:
    system = _System()
    pool = PinnedPool(system)
    for size in (1_000_000, 1_010_000, 900_001):
        pool.give(pool.take(size), size)
    assert len(system.sizes) == 2
    assert all(given >= asked for given, asked in zip(system.sizes, (1_010_000, 900_001), strict=True))
    assert max(system.sizes) < 1.2 * 1_010_000
