"""What a person may tell a job: cancel, delete, pause, resume, requeue, accept, choose, hurry.

Each is one transaction on the locked job, says who asked and why, and is refused with ConflictError where it makes no
sense. Running attempts hear of it with their next heartbeat.
"""

from __future__ import annotations

from typing import Any, Literal

from sqlalchemy import ColumnElement, func, select, update
from sqlalchemy.orm import Session

from farm.db.tables import Chunk, Job, Task
from farm.errors import ConflictError, NotFoundError
from farm.jobs import ledger, moves
from farm.jobs.advance import advance, phase
from farm.jobs.states import FINAL_JOB_STATES, JobState, TaskKind, TaskState

_HALT = {JobState.PAUSING, JobState.PAUSED}
_NOT_RUNNING = (TaskState.WAITING, TaskState.READY, TaskState.BACKOFF, TaskState.PAUSED)


def cancel(session: Session, job_id: str, *, actor: str, reason: str = "Cancelled.") -> JobState:
    """Stop a job for good; its state afterwards. A second cancel changes nothing; an ended job refuses."""
    job = moves.lock_job(session, job_id)
    if job.state in (JobState.CANCELLING, JobState.CANCELLED):
        return job.state
    if job.state in FINAL_JOB_STATES:
        raise refused(job, "cancelled", "It has ended.")
    moves.move_tasks(session, job, _NOT_RUNNING, TaskState.CANCELLED, reason, actor=actor)
    running = moves.any_running(session, job)
    moves.move_job(session, job, JobState.CANCELLING if running else JobState.CANCELLED, reason, actor=actor)
    return job.state


def delete(session: Session, job_id: str, *, actor: str, reason: str = "Deleted.") -> JobState:
    """Have a job removed, with all that the store has of it; its state afterwards. A second call changes nothing.

    One that has not ended is cancelled first. `farm.removal` removes it once nothing of it runs any more and no other
    job waits for it; until then it can be seen, and takes no more commands.
    """
    job = moves.lock_job(session, job_id)
    if job.delete_at is None:
        job.delete_at = func.clock_timestamp()
        ledger.note(session, "job.delete", job_id=job.id, actor=actor, reason=reason)
    if job.state in FINAL_JOB_STATES:
        return job.state
    return cancel(session, job_id, actor=actor, reason=reason)


def pause(session: Session, job_id: str, *, actor: str, reason: str = "Paused.") -> JobState:
    """Halt a job: running attempts hand their tasks back, nothing more is claimed. A second pause changes nothing."""
    job = moves.lock_job(session, job_id)
    if job.state in _HALT:
        return job.state
    if job.state in FINAL_JOB_STATES or job.state is JobState.CANCELLING:
        raise refused(job, "paused", "Only a job that is not ended can be.")
    moves.move_tasks(session, job, (TaskState.READY, TaskState.BACKOFF), TaskState.PAUSED, reason, actor=actor)
    running = moves.any_running(session, job)
    moves.move_job(session, job, JobState.PAUSING if running else JobState.PAUSED, reason, actor=actor)
    return job.state


def resume(session: Session, job_id: str, *, actor: str, reason: str = "Resumed.") -> JobState:
    """Let a paused job go on where it was. A job that is not paused refuses."""
    job = moves.lock_job(session, job_id)
    if job.state not in _HALT:
        raise refused(job, "resumed", "Only a paused job can be.")
    moves.move_tasks(session, job, [TaskState.PAUSED], TaskState.READY, reason, actor=actor)
    moves.move_job(session, job, phase(session, job), reason, actor=actor)
    advance(session, job)
    return job.state


def choose_mapping(session: Session, job_id: str, mapping: dict[str, Any], *, actor: str) -> JobState:
    """Decide who in the cast gets which identity, for a job that waits for it; its chunks become claimable."""
    job = moves.lock_job(session, job_id)
    if not _waits_for_mapping(job):
        raise refused(job, "given a mapping", "Only a job that waits for one can be.")
    job.mapping, job.mapping_by = mapping, actor
    ledger.note(session, "job.mapping", job_id=job.id, actor=actor, reason="The mapping was chosen.")
    advance(session, job)
    return job.state


def replace_cast(
    session: Session, job_id: str, before: str, after: str, members: list[dict[str, Any]], *, actor: str, reason: str
) -> None:
    """Put a cast that was corrected by hand (object `after`) in the place of `before`, until the mapping is decided.

    ConflictError when the job waits for no mapping, or somebody else has corrected the cast meanwhile.
    """
    job = moves.lock_job(session, job_id)
    if not _waits_for_mapping(job):
        raise refused(job, "given another cast", "The cast can be changed until the mapping is decided.")
    if job.cast_key != before:
        raise ConflictError(
            "Somebody else has changed the cast meanwhile.", where=f"job {job.id}", do="Look at it again, then repeat."
        )
    job.cast_key, job.cast_members = after, members
    ledger.note(session, "job.cast", job_id=job.id, actor=actor, reason=reason)


def set_priority(session: Session, job_id: str, priority: int, *, actor: str) -> None:
    """Change the priority (0 to 100) of a job and of all of its tasks, at once."""
    if not 0 <= priority <= 100:
        raise ConflictError(f"There is no priority {priority}.", where="priority", do="Give a number from 0 to 100.")
    job = moves.lock_job(session, job_id)
    before, job.priority = job.priority, priority
    session.execute(update(Task).where(Task.job_id == job_id, Task.state != TaskState.DONE).values(priority=priority))
    ready = select(Task.lane_id).where(Task.job_id == job_id, Task.state == TaskState.READY).distinct()
    for lane in session.scalars(ready):
        ledger.wake(session, lane, 0)
    ledger.note(
        session,
        "job.priority",
        job_id=job_id,
        actor=actor,
        reason=f"Priority {before} became {priority}.",
        data={"before": before, "after": priority},
    )


def requeue(
    session: Session,
    job_id: str,
    *,
    actor: str,
    what: Literal["job", "failed"] | int = "failed",
    reason: str = "Requeued.",
) -> JobState:
    """Do work again; the job's state afterwards.

    "job": all of it, from the plan on. "failed": what failed or was cancelled; what is done stays done. A number: that
    chunk alone, also of a completed job. The deliverable is merged anew in each case. A running attempt of what is
    requeued loses its lease. ConflictError for a job that is being cancelled, or when there is nothing to do.
    """
    job = moves.lock_job(session, job_id)
    if job.delete_at is not None:
        raise refused(job, "requeued", "It is being deleted; submit it anew.")
    if job.state in (JobState.CANCELLING, JobState.WAITING):
        raise refused(job, "requeued", "Wait until it is cancelled, or has begun.")
    if what == "job":
        _restart(session, job, actor, reason)
    elif what == "failed":
        _retry_failed(session, job, actor, reason)
    else:
        _redo_chunk(session, job, what, actor, reason)
    session.flush()
    if job.state in FINAL_JOB_STATES or (job.state not in _HALT and job.state is not phase(session, job)):
        moves.move_job(session, job, phase(session, job), reason, actor=actor)
    advance(session, job)
    return job.state


def accept_as_is(session: Session, job_id: str, position: int, *, actor: str, reason: str) -> JobState:
    """Let a chunk that cannot be rendered show the plate's own frames: it is encoded again without any processor."""
    job = moves.lock_job(session, job_id)
    chunk = _chunk(session, job, position)
    task = session.get_one(Task, chunk.task_id)
    if task.state is not TaskState.FAILED:
        raise ConflictError(
            f"Chunk {position} is {task.state}.", where=f"job {job.id}", do="Only a failed chunk can be accepted as is."
        )
    chunk.as_is = True
    ledger.note(
        session, "chunk.as_is", job_id=job.id, task_id=task.id, actor=actor, reason=reason, data={"position": position}
    )
    return requeue(session, job_id, actor=actor, what=position, reason=reason)


def _waits_for_mapping(job: Job) -> bool:
    waits = job.state is JobState.PAUSED and job.cast_key is not None and not job.mapping
    return waits or job.state is JobState.AWAITING_CAST


def refused(job: Job, what: str, why: str) -> ConflictError:
    """The error for a command that makes no sense in the job's state."""
    return ConflictError(f"A job that is {job.state} cannot be {what}.", where=f"job {job.id}", do=why)


def _chunk(session: Session, job: Job, position: int) -> Chunk:
    chunk = session.scalar(select(Chunk).where(Chunk.job_id == job.id, Chunk.position == position))
    if chunk is None:
        raise NotFoundError(f"There is no chunk {position}.", where=f"job {job.id}", do="List its chunks first.")
    return chunk


def fresh_start(
    session: Session, job: Job, after: TaskState, actor: str, reason: str, *where: ColumnElement[bool]
) -> int:
    """Give tasks a fresh start: their running attempts are superseded and their counts of tries forgotten."""
    moves.supersede(session, job, reason, where=where)
    session.execute(
        update(Task)
        .where(Task.job_id == job.id, *where)
        .values(charged=0, lost=0, shrunk=0, handed_back=0, delayed=0, avoid=[])
        .execution_options(synchronize_session=False)
    )
    others = [state for state in TaskState if state is not after]
    if after is not TaskState.WAITING:
        # through WAITING, so that what is READY already is announced once more as well
        others.remove(TaskState.WAITING)
        ids = list(session.scalars(select(Task.id).where(Task.job_id == job.id, *where)))
        where = (Task.id.in_(ids),)
        moves.move_tasks(session, job, others, TaskState.WAITING, reason, actor=actor, where=where)
        others = [TaskState.WAITING]
    return moves.move_tasks(session, job, others, after, reason, actor=actor, where=where)


def _restart(session: Session, job: Job, actor: str, reason: str) -> None:
    fresh_start(session, job, TaskState.WAITING, actor, reason, Task.kind != TaskKind.PLAN)
    moves.discard_results(session, job)
    _render_anew(session, Chunk.job_id == job.id, planned=False)
    job.mapping = job.mapping_by = job.cast_key = job.cast_members = job.started_at = None
    fresh_start(session, job, moves.ready_state(job), actor, reason, Task.kind == TaskKind.PLAN)


def _render_anew(session: Session, where: ColumnElement[bool], **more: Any) -> None:
    """A person wants to see the chunks rendered, so no result that is there already may stand in for them."""
    session.execute(update(Chunk).where(where).values(fresh=True, **more).execution_options(synchronize_session=False))


def _retry_failed(session: Session, job: Job, actor: str, reason: str) -> None:
    if not _revive(session, job, actor, reason, (TaskState.FAILED, TaskState.CANCELLED)):
        raise refused(job, "requeued", "None of its tasks has failed; requeue the job or one chunk instead.")


def _redo_chunk(session: Session, job: Job, position: int, actor: str, reason: str) -> None:
    chunk = _chunk(session, job, position)
    moves.discard_results(session, job, Chunk.position == position)
    _render_anew(session, Chunk.task_id == chunk.task_id)
    fresh_start(session, job, TaskState.WAITING, actor, reason, Task.id == chunk.task_id)
    fresh_start(session, job, TaskState.WAITING, actor, reason, Task.kind == TaskKind.MERGE)
    # a job that had failed lost its other open tasks; they come back with this one
    _revive(session, job, actor, reason, (TaskState.CANCELLED,))


def _revive(session: Session, job: Job, actor: str, reason: str, states: tuple[TaskState, ...]) -> int:
    """Give the tasks in `states` a fresh start. Returns how many."""
    ended = Task.state.in_(states)
    again = fresh_start(session, job, TaskState.WAITING, actor, reason, Task.kind != TaskKind.PLAN, ended)
    return again + fresh_start(session, job, moves.ready_state(job), actor, reason, Task.kind == TaskKind.PLAN, ended)
