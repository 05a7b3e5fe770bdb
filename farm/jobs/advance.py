"""What follows from what is done: opens the next tasks of a job, ends it when nothing is left.

`advance` may be called at any time on a locked job: what is there already is not done twice. Each use case that changes
a task calls it in its own transaction; the reconciler calls it for jobs that stand still.
"""

from __future__ import annotations

from collections import Counter

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session

from farm.db.tables import Chunk, Job, Plate, Task
from farm.jobs import moves
from farm.jobs.policy import DEFAULT
from farm.jobs.states import FINAL_JOB_STATES, JobState, TaskKind, TaskState
from farm.words import counted

Counts = Counter[tuple[TaskKind, TaskState]]


def count_tasks(session: Session, job_id: str) -> Counts:
    """How many tasks of each kind are in each state."""
    session.flush()
    rows = session.execute(
        select(Task.kind, Task.state, func.count()).where(Task.job_id == job_id).group_by(Task.kind, Task.state)
    )
    return Counter({(kind, state): number for kind, state, number in rows})


def mapping_decided(job: Job) -> bool:
    return not job.needs_cast or job.mapping is not None


def advance(session: Session, job: Job, *, failed_share: float = DEFAULT.failed_share) -> None:
    """Do what the job's tasks allow to be done. The job must be locked."""
    if job.state in FINAL_JOB_STATES:
        return
    if job.state is JobState.CANCELLING:
        moves.complete_stop(session, job)
        return
    counts = count_tasks(session, job.id)
    done = {kind for kind in TaskKind if counts[kind, TaskState.DONE]}
    if TaskKind.PLAN in done and counts[TaskKind.CAST, TaskState.WAITING]:
        _open(session, job, TaskKind.CAST, "Every segment is there.")
    if mapping_decided(job) and counts[TaskKind.RENDER, TaskState.WAITING]:
        # where the plate is planned anew, a chunk waits until that plan has come to it
        planned = (
            select(Chunk.task_id)
            .join(Plate, Plate.job_id == Chunk.job_id)
            .where(Chunk.planned, Chunk.by_decode == Plate.by_decode)
        )
        reason = "The segment is there and the mapping is decided."
        _open(session, job, TaskKind.RENDER, reason, Task.id.in_(planned.where(Chunk.job_id == job.id)))
        counts = count_tasks(session, job.id)
    if TaskKind.PLAN in done:
        _close(session, job, counts, failed_share)
    if job.state in FINAL_JOB_STATES:
        return
    moves.complete_stop(session, job)
    if job.state not in (JobState.PAUSING, JobState.PAUSED):
        _settle(session, job)


def _open(session: Session, job: Job, kind: TaskKind, reason: str, *where: ColumnElement[bool]) -> None:
    only = [Task.kind == kind, *where]
    moves.move_tasks(session, job, [TaskState.WAITING], moves.ready_state(job), reason, where=only)


def _any_open(counts: Counts, kind: TaskKind) -> bool:
    return any(
        counts[kind, state]
        for state in (TaskState.WAITING, TaskState.READY, TaskState.RUNNING, TaskState.BACKOFF, TaskState.PAUSED)
    )


def _close(session: Session, job: Job, counts: Counts, failed_share: float) -> None:
    """Fail the job when too many of its chunks have; merge them when every one is rendered."""
    failed = counts[TaskKind.RENDER, TaskState.FAILED]
    ended = not _any_open(counts, TaskKind.RENDER)
    total = sum(number for (kind, _), number in counts.items() if kind is TaskKind.RENDER)
    if failed and (ended or failed >= failed_share * total):
        moves.fail_job(session, job, failed_chunks(session, job, failed, total))
    elif ended and counts[TaskKind.MERGE, TaskState.WAITING] and counts[TaskKind.RENDER, TaskState.DONE]:
        _open(session, job, TaskKind.MERGE, "Every chunk is rendered.")


def failed_chunks(session: Session, job: Job, failed: int, total: int) -> str:
    """One sentence about the chunks that could not be rendered: how many, which, and why the first one failed."""
    first = session.execute(
        select(Task.position, Task.reason)
        .where(Task.job_id == job.id, Task.kind == TaskKind.RENDER, Task.state == TaskState.FAILED)
        .order_by(Task.position)
        .limit(1)
    ).one()
    return f"{failed} of {counted(total, 'chunk')} failed; the first is chunk {first.position}: {first.reason}"


def phase(session: Session, job: Job) -> JobState:
    """The state that a job which is neither halted nor ended is in, by its tasks."""
    counts = count_tasks(session, job.id)
    merge_at = {state for state in TaskState if counts[TaskKind.MERGE, state]}
    if not merge_at <= {TaskState.WAITING}:
        return JobState.MERGING
    if counts[TaskKind.PLAN, TaskState.WAITING]:
        return JobState.WAITING
    if not mapping_decided(job) and counts[TaskKind.CAST, TaskState.DONE]:
        return JobState.AWAITING_CAST
    begun = counts[TaskKind.PLAN, TaskState.DONE] or counts[TaskKind.PLAN, TaskState.RUNNING] or job.started_at
    return JobState.RUNNING if begun else JobState.QUEUED


_REASONS = {
    JobState.WAITING: "It waits for other jobs.",
    JobState.QUEUED: "It waits for a worker.",
    JobState.RUNNING: "A worker has begun.",
    JobState.AWAITING_CAST: "The cast is known; somebody must choose who gets which identity.",
    JobState.MERGING: "Every chunk is rendered.",
}


def _settle(session: Session, job: Job) -> None:
    after = phase(session, job)
    if after is not job.state:
        moves.move_job(session, job, after, _REASONS[after])
