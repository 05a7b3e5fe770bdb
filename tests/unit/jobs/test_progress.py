"""Estimates by measured rates."""

from __future__ import annotations

import pytest

from farm.jobs.progress import eta


def test_nothing_left_takes_no_time() -> None:
    assert eta(0, 0, [], None) == (0.0, 0.0)


def test_nobody_at_work_has_no_end() -> None:
    assert eta(100, 0, [10.0], None) == (None, None)


def test_ended_chunks_tell_the_rate() -> None:
    seconds, error = eta(1000, 4, [9.0, 11.0], 1.0)
    assert seconds == pytest.approx(25.0)
    # standard error of the mean rate: sqrt(2) / 10 / sqrt(2) of the estimate
    assert error == pytest.approx(2.5)


def test_before_the_first_has_ended_the_running_ones_do() -> None:
    assert eta(100, 2, [], 20.0) == (5.0, None)
    assert eta(100, 2, [], None) == (None, None)
