"""When a job is said to be late: by the clock, or by its rate beyond the doubt of its own estimate."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from farm.jobs.deadline import foresee
from farm.jobs.progress import JobProgress

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("minutes_left", "eta", "error", "late", "words"),
    [
        (-5, None, None, True, "passed 5 min ago"),
        (-5, 60.0, 0.0, True, "passed 5 min ago"),
        (60, None, None, False, "is in 60 min"),
        (60, 1800.0, 60.0, False, "30 min before"),
        (60, 7200.0, 60.0, True, "60 min after its deadline"),
        (60, 3900.0, 600.0, False, "expected"),
        (60, 3900.0, None, True, "5 min after"),
        (60, 36000.0, None, True, "9.0 h after"),
    ],
)
def test_late_or_in_time(minutes_left: int, eta: float | None, error: float | None, late: bool, words: str) -> None:
    progress = JobProgress(running=2, eta_seconds=eta, eta_error=error)
    outlook = foresee(NOW + timedelta(minutes=minutes_left), NOW, progress)
    assert outlook.late is late
    assert words in outlook.words
