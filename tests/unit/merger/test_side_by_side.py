"""Pieces of a check run side by side; what stands still is told from what is slow."""

from __future__ import annotations

import threading

import pytest

from farm.errors import InfrastructureError, InputError
from farm.merger.side_by_side import Tick, side_by_side


def test_pieces_run_at_the_same_time_and_all_end() -> None:
    together = threading.Barrier(3)

    def work(tick: Tick) -> None:
        tick()
        together.wait(timeout=10)

    side_by_side([work, work, work], where="test")
    assert not together.broken


def test_the_first_error_is_raised_when_all_have_ended() -> None:
    ended = threading.Event()

    def fail(tick: Tick) -> None:
        raise InputError("The file breaks off.", where="test", do="Copy it again.")

    def last(tick: Tick) -> None:
        ended.set()

    with pytest.raises(InputError, match="breaks off"):
        side_by_side([last, fail], where="test")
    assert ended.is_set()


def test_what_stands_still_is_given_up() -> None:
    released = threading.Event()

    def stuck(tick: Tick) -> None:
        released.wait()

    with pytest.raises(InfrastructureError, match="Nothing moved"):
        side_by_side([stuck, lambda tick: tick()], where="reading back", stall_seconds=0.05)
    released.set()


def test_what_moves_is_waited_for_however_long_it_takes() -> None:
    """Each look at the clock sees another count, as from a slow disk."""
    looks = threading.Semaphore(0)

    def slow(tick: Tick) -> None:
        for _ in range(4):
            tick()
            looks.acquire(timeout=0.3)

    side_by_side([slow], where="test", stall_seconds=1.0)
