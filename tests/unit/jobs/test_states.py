"""The transition tables: closed, reachable, obeyed, drawn."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

import pytest

from farm.db.enums import AttemptState, JobState, TaskState
from farm.errors import ConflictError
from farm.jobs.diagram import document
from farm.jobs.states import (
    ATTEMPT_TRANSITIONS,
    FINAL_JOB_STATES,
    JOB_TRANSITIONS,
    TASK_TRANSITIONS,
    Transitions,
    check,
)

TABLES = [
    (JobState, {JobState.WAITING, JobState.QUEUED}, JOB_TRANSITIONS),
    (TaskState, {TaskState.WAITING, TaskState.READY}, TASK_TRANSITIONS),
    (AttemptState, {AttemptState.RUNNING}, ATTEMPT_TRANSITIONS),
]


@pytest.mark.parametrize(("enum", "starts", "table"), TABLES)
def test_every_state_is_reachable(enum: type[StrEnum], starts: set[StrEnum], table: Transitions) -> None:
    seen = set(starts)
    while more := {after for before, after in table if before in seen} - seen:
        seen |= more
    assert seen == set(enum)


@pytest.mark.parametrize(("enum", "starts", "table"), TABLES)
def test_nothing_is_a_transition_to_itself_and_each_has_a_cause(
    enum: type[StrEnum], starts: set[StrEnum], table: Transitions
) -> None:
    assert all(before is not after and cause for (before, after), cause in table.items())


def test_every_job_can_end_in_each_way() -> None:
    for state in set(JobState) - FINAL_JOB_STATES:
        for end in FINAL_JOB_STATES:
            seen = {state}
            while more := {b for a, b in JOB_TRANSITIONS if a in seen and a not in FINAL_JOB_STATES} - seen:
                seen |= more
            # a cancelled job stays cancelled: nobody may find it completed or failed later
            assert (end in seen) is (state is not JobState.CANCELLING or end is JobState.CANCELLED)


def test_completed_comes_only_from_a_merge() -> None:
    assert {a for a, b in JOB_TRANSITIONS if b is JobState.COMPLETED} == {JobState.MERGING, JobState.PAUSING}


def test_ended_attempts_stay_ended() -> None:
    assert {before for before, _ in ATTEMPT_TRANSITIONS} == {AttemptState.RUNNING}


def test_check_says_what_is_possible_instead() -> None:
    assert check(TaskState.READY, TaskState.RUNNING) == "a slot claimed it"
    with pytest.raises(ConflictError, match=r"cannot become running.*it may become"):
        check(TaskState.DONE, TaskState.RUNNING)
    with pytest.raises(ConflictError, match="done is final"):
        check(AttemptState.DONE, AttemptState.RUNNING)


def test_the_page_is_drawn_from_the_tables() -> None:
    page = Path(__file__).parents[3] / "docs" / "states.md"
    assert page.read_text(encoding="utf-8") == document(), "run: python -m farm.jobs.diagram"
