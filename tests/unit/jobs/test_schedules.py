"""Windows of the week, at local times."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from pydantic import ValidationError

from farm.cli.workers import window_of
from farm.errors import InputError
from farm.jobs.schedules import Window

MONDAY = 7  # of December 2026


def at(day: int, clock: str) -> datetime:
    return datetime.fromisoformat(f"2026-12-{day:02d}T{clock}")


@pytest.mark.parametrize(
    ("window", "moment", "open_"),
    [
        ("mon-fri 09:00-17:00", at(MONDAY, "09:00"), True),
        ("mon-fri 09:00-17:00", at(MONDAY, "08:59:59"), False),
        ("mon-fri 09:00-17:00", at(MONDAY, "17:00"), False),
        ("mon-fri 09:00-17:00", at(MONDAY + 5, "12:00"), False),
        ("fri 20:00-08:00", at(MONDAY + 4, "23:00"), True),
        ("fri 20:00-08:00", at(MONDAY + 5, "07:59"), True),
        ("fri 20:00-08:00", at(MONDAY + 4, "07:59"), False),
        ("sun 20:00-08:00", at(MONDAY, "01:00"), True),
        ("sat,sun 00:00-24:00", at(MONDAY + 6, "23:59"), True),
        ("sat,sun 00:00-24:00", at(MONDAY, "00:00"), False),
        ("fri-mon 12:00-13:00", at(MONDAY, "12:30"), True),
        ("fri-mon 12:00-13:00", at(MONDAY + 1, "12:30"), False),
    ],
)
def test_a_window_is_open(window: str, moment: datetime, open_: bool) -> None:
    assert Window.model_validate(window_of(window)).holds(moment) is open_


@pytest.mark.parametrize("text", ["always", "mon 9-17", "mon-tuesday 09:00-17:00", "mon 09:00-17:00 UTC", ""])
def test_what_is_no_window_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="no window"):
        window_of(text)


@pytest.mark.parametrize(
    "wrong",
    [
        {"days": [], "start": "09:00", "end": "10:00"},
        {"days": ["mon"], "start": "09:00", "end": "09:00"},
        {"days": ["mon"], "start": "24:00", "end": "01:00"},
        {"days": ["mon"], "start": "09:61", "end": "10:00"},
        {"days": ["noday"], "start": "09:00", "end": "10:00"},
    ],
)
def test_a_window_that_never_or_always_holds_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Window.model_validate(wrong)
