"""When slots say for their worker's program that the worker lives."""

from __future__ import annotations

from pathlib import Path

import pytest

from farm.worker.relay import FRESH_SECONDS, Relay


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def relay(tmp_path: Path, clock: Clock) -> Relay:
    return Relay(tmp_path, "a worker/with: any name", clock)


def test_the_last_report_before_the_worker_is_due_is_by_which_it_is_said(relay: Relay, clock: Clock) -> None:
    relay.well(due=clock.now + 5)
    assert not relay.is_wanted(2.0)
    assert relay.is_wanted(5.0)
    clock.now += 4
    assert relay.is_wanted(2.0)


def test_nobody_says_it_of_a_program_that_is_silent(relay: Relay, clock: Clock) -> None:
    assert not relay.is_wanted(100.0)
    relay.well(due=clock.now)
    assert relay.is_wanted(2.0)
    clock.now += FRESH_SECONDS
    assert not relay.is_wanted(2.0)


def test_a_note_of_the_machines_life_before_counts_for_nothing(relay: Relay, clock: Clock) -> None:
    """The monotonic clock begins anew with the machine."""
    relay.well(due=clock.now)
    clock.now = 3.0
    assert not relay.is_wanted(2.0)


def test_nobody_says_it_while_only_the_program_can(relay: Relay, clock: Clock) -> None:
    relay.well(due=clock.now)
    relay.unwell()
    relay.unwell()
    assert not relay.is_wanted(100.0)


def test_the_program_reads_when_it_was_said(relay: Relay, clock: Clock, tmp_path: Path) -> None:
    assert relay.last() is None
    relay.told(20.0)
    clock.now += 7
    note = relay.last()
    assert note is not None
    assert (note.at, note.seconds) == (1000.0, 20.0)
    assert Relay(tmp_path, "another", clock).last() is None
