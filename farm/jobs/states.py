"""What a job, a task and an attempt may become, and why: one table each.

Every change of state goes through `check`, the columns' check constraints hold the same words, and
`docs/states.md` is drawn from these tables (`python -m farm.jobs.diagram`). The text of a transition says what brings
it about; the reason that is stored with a change says why it happened this time.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from farm.db.enums import AttemptState, JobState, TaskKind, TaskState
from farm.errors import ConflictError

__all__ = [
    "ATTEMPT_TRANSITIONS",
    "FINAL_JOB_STATES",
    "JOB_TRANSITIONS",
    "OPEN_TASK_STATES",
    "TASK_TRANSITIONS",
    "AttemptState",
    "JobState",
    "TaskKind",
    "TaskState",
    "check",
]

Transitions = Mapping[tuple[StrEnum, StrEnum], str]

_J, _T, _A = JobState, TaskState, AttemptState

JOB_TRANSITIONS: Transitions = {
    (_J.WAITING, _J.QUEUED): "the jobs that it needs have ended",
    (_J.WAITING, _J.FAILED): "a job that it needs cannot complete any more",
    (_J.QUEUED, _J.RUNNING): "a worker claimed its first task",
    (_J.RUNNING, _J.AWAITING_CAST): "the cast is known and a person must choose who gets which identity",
    (_J.AWAITING_CAST, _J.RUNNING): "the mapping was chosen",
    (_J.RUNNING, _J.MERGING): "every chunk is rendered",
    (_J.MERGING, _J.COMPLETED): "the merge verified and published every deliverable",
    **{
        (state, _J.PAUSING): "a person paused it while attempts were running"
        for state in (_J.QUEUED, _J.RUNNING, _J.AWAITING_CAST, _J.MERGING)
    },
    **{
        (state, _J.PAUSED): "a person paused it and nothing was running"
        for state in (_J.WAITING, _J.QUEUED, _J.RUNNING, _J.AWAITING_CAST, _J.MERGING)
    },
    (_J.PAUSING, _J.PAUSED): "the last running attempt has stopped",
    **{
        (before, after): "a person resumed it; it goes on where it was"
        for before in (_J.PAUSING, _J.PAUSED)
        for after in (_J.WAITING, _J.QUEUED, _J.RUNNING, _J.AWAITING_CAST, _J.MERGING)
        if (before, after) != (_J.PAUSING, _J.WAITING)
    },
    (_J.PAUSING, _J.COMPLETED): "the merge was done before it heard of the pause",
    **{
        (state, _J.CANCELLING): "a person or a budget cancelled it while attempts were running"
        for state in (_J.QUEUED, _J.RUNNING, _J.AWAITING_CAST, _J.MERGING, _J.PAUSING)
    },
    **{
        (state, _J.CANCELLED): "a person or a budget cancelled it and nothing was running"
        for state in (_J.WAITING, _J.QUEUED, _J.RUNNING, _J.AWAITING_CAST, _J.MERGING, _J.PAUSING, _J.PAUSED)
    },
    (_J.CANCELLING, _J.CANCELLED): "the last running attempt has stopped",
    **{
        (state, _J.FAILED): "a task cannot be done; the reason says which and why"
        for state in (_J.QUEUED, _J.RUNNING, _J.AWAITING_CAST, _J.MERGING, _J.PAUSING, _J.PAUSED)
    },
    **{
        (before, after): "a person requeued the job, its failed tasks or a chunk"
        for before in (_J.COMPLETED, _J.FAILED, _J.CANCELLED)
        for after in (_J.QUEUED, _J.RUNNING, _J.AWAITING_CAST, _J.MERGING)
    },
    (_J.MERGING, _J.RUNNING): "a person requeued a chunk, or the result of one was lost",
    (_J.MERGING, _J.QUEUED): "a person requeued the job",
    (_J.RUNNING, _J.QUEUED): "a person requeued the job",
    (_J.AWAITING_CAST, _J.QUEUED): "a person requeued the job",
}

TASK_TRANSITIONS: Transitions = {
    (_T.WAITING, _T.READY): "its inputs are there",
    (_T.WAITING, _T.PAUSED): "its inputs are there, but the job is paused",
    (_T.READY, _T.RUNNING): "a slot claimed it",
    (_T.RUNNING, _T.DONE): "its attempt finished with a valid lease",
    (_T.RUNNING, _T.READY): "its attempt was handed back, lost or failed, and may be tried again at once",
    (_T.RUNNING, _T.BACKOFF): "its attempt failed by a fault that takes a while to go away",
    (_T.RUNNING, _T.PAUSED): "its attempt stopped for a pause",
    (_T.RUNNING, _T.FAILED): "its attempt failed and there is no try left, or none would help",
    (_T.RUNNING, _T.CANCELLED): "the job was cancelled or has failed",
    (_T.RUNNING, _T.WAITING): "a person requeued what it depends on",
    (_T.BACKOFF, _T.READY): "the pause before its next try is over",
    **{(state, _T.PAUSED): "the job was paused" for state in (_T.READY, _T.BACKOFF)},
    (_T.PAUSED, _T.READY): "the job was resumed",
    **{
        (state, _T.CANCELLED): "the job was cancelled or has failed"
        for state in (_T.WAITING, _T.READY, _T.BACKOFF, _T.PAUSED)
    },
    **{
        (before, after): "a person requeued it, or what it depends on"
        for before in (_T.DONE, _T.FAILED, _T.CANCELLED)
        for after in (_T.WAITING, _T.READY, _T.PAUSED)
    },
    **{(state, _T.WAITING): "a person requeued what it depends on" for state in (_T.READY, _T.BACKOFF, _T.PAUSED)},
}

ATTEMPT_TRANSITIONS: Transitions = {
    (_A.RUNNING, _A.DONE): "it finished with a valid lease",
    (_A.RUNNING, _A.FAILED): "it reported an error",
    (_A.RUNNING, _A.INTERRUPTED): "its worker handed it back: drain, pause or cancel",
    (_A.RUNNING, _A.EXPIRED): "its lease ran out: the worker died, froze or lost its way to the database",
    (_A.RUNNING, _A.SUPERSEDED): "its task was requeued, or its job failed, while it ran",
}

FINAL_JOB_STATES = frozenset({_J.COMPLETED, _J.FAILED, _J.CANCELLED})
OPEN_TASK_STATES = frozenset({_T.WAITING, _T.READY, _T.RUNNING, _T.BACKOFF, _T.PAUSED})

_TABLES: dict[type[StrEnum], tuple[str, Transitions]] = {
    JobState: ("job", JOB_TRANSITIONS),
    TaskState: ("task", TASK_TRANSITIONS),
    AttemptState: ("attempt", ATTEMPT_TRANSITIONS),
}


def check(before: StrEnum, after: StrEnum) -> str:
    """What brings the change about, in words; ConflictError when the table does not have it."""
    noun, table = _TABLES[type(before)]
    try:
        return table[before, after]
    except KeyError:
        allowed = sorted(str(b) for a, b in table if a == before)
        raise ConflictError(
            f"A {noun} that is {before} cannot become {after}.",
            where=noun,
            do=f"From {before} it may become {', '.join(allowed)}." if allowed else f"{before} is final.",
        ) from None
