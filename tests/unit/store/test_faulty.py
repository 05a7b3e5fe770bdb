from __future__ import annotations

import pytest

from farm.errors import InfrastructureError
from farm.store.faulty import Dice, Fault, FaultyStore, Script
from farm.store.memory import MemoryStore


def test_before_leaves_nothing_and_after_leaves_the_object() -> None:
    inner = MemoryStore()
    script = Script({("put_bytes", 1): Fault.BEFORE, ("put_bytes", 2): Fault.AFTER})
    store = FaultyStore(inner, script)
    with pytest.raises(InfrastructureError):
        store.put_bytes("a", b"x")
    assert inner.head("a") is None
    with pytest.raises(InfrastructureError):
        store.put_bytes("a", b"x")
    assert inner.get_bytes("a") == b"x"
    assert store.put_bytes("a", b"y").size == 1
    assert script.left == 0


def test_a_head_that_sees_nothing_yet() -> None:
    store = FaultyStore(MemoryStore(), Script({("head", 1): Fault.MISSING}))
    store.put_bytes("a", b"x")
    assert store.head("a") is None
    assert store.head("a") is not None


def test_the_same_seed_gives_the_same_faults() -> None:
    def fates(seed: int) -> list[Fault | None]:
        dice = Dice(seed, 0.3)
        return [dice("head", "k") for _ in range(200)]

    assert fates(1) == fates(1)
    assert fates(1) != fates(2)
    assert 30 < sum(fate is not None for fate in fates(1)) < 90
    assert Dice(1, 0.0)("get_bytes", "k") is None
