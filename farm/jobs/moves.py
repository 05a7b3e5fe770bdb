"""Changes of state: the only code that writes a state column of a job, task or attempt (but for claim and finish).

Locks are always taken in the order job, task, attempt, and (at the commit, by the ledger) lane, the job's
events, project, submitter.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from sqlalchemy import ColumnElement, exists, func, select, text, update
from sqlalchemy.orm import Session

from farm.db.base import seconds as interval
from farm.db.engine import rows_changed
from farm.db.tables import Attempt, Chunk, Job, Task, Worker
from farm.errors import NotFoundError
from farm.jobs import ledger, states
from farm.jobs.states import FINAL_JOB_STATES, AttemptState, JobState, TaskKind, TaskState

_HALTED = frozenset({JobState.PAUSING, JobState.PAUSED})
_STOPPING_BEFORE = {
    JobState.PAUSING: (JobState.PAUSED, "Nothing is running any more."),
    JobState.CANCELLING: (JobState.CANCELLED, "Nothing is running any more."),
}


def lock_job(session: Session, job_id: str) -> Job:
    """The job, locked until the commit. NotFoundError when there is none."""
    job = session.scalar(
        select(Job).where(Job.id == job_id).with_for_update(key_share=True).execution_options(populate_existing=True)
    )
    if job is None:
        raise NotFoundError("There is no such job.", where=f"job {job_id}", do="List the jobs with `farm jobs`.")
    return job


# A claim holds its task and must not wait for the job (see above). If somebody else has the job just now, the state is
# set a moment later, by the first report of the attempt.
_MARK_STARTED = text("""
    UPDATE job SET state = 'running', reason = 'A worker has begun.',
                   started_at = coalesce(started_at, clock_timestamp())
    WHERE id = (SELECT id FROM job WHERE id = :job AND state = 'queued' FOR NO KEY UPDATE SKIP LOCKED)""")


def mark_started(session: Session, job_id: str) -> None:
    """QUEUED becomes RUNNING, without waiting for the job's lock."""
    if rows_changed(session, _MARK_STARTED, {"job": job_id}):
        ledger.note(
            session,
            "job.state",
            job_id=job_id,
            before=JobState.QUEUED,
            after=JobState.RUNNING,
            reason="A worker has begun.",
        )


def move_job(session: Session, job: Job, after: JobState, reason: str, *, actor: str = "farm") -> None:
    """Change the state of a locked job; ConflictError when the table of transitions does not have it."""
    before = job.state
    states.check(before, after)
    job.state, job.reason = after, reason
    if after in (JobState.PAUSING, JobState.CANCELLING):
        ledger.call(session, job.id)
    if after in FINAL_JOB_STATES:
        job.finished_at = func.clock_timestamp()
    elif before in FINAL_JOB_STATES:
        job.finished_at = None
    if after is JobState.RUNNING and job.started_at is None:
        job.started_at = func.clock_timestamp()
    ledger.note(session, "job.state", job_id=job.id, before=before, after=after, actor=actor, reason=reason)


def move_task(
    session: Session,
    task: Task,
    after: TaskState,
    reason: str,
    *,
    actor: str = "farm",
    attempt: Attempt | None = None,
    delay: float = 0.0,
) -> None:
    """Change the state of one locked task. `delay` (seconds) is the pause before a task in BACKOFF is ready again."""
    before = task.state
    states.check(before, after)
    task.state, task.reason = after, reason
    task.not_before = None
    if after is TaskState.READY:
        task.ready_at = func.clock_timestamp()
        ledger.wake(session, task.lane_id)
    elif after is TaskState.BACKOFF:
        task.not_before = func.clock_timestamp() + interval(delay)
    elif after is TaskState.DONE:
        task.done_at = func.clock_timestamp()
    ledger.note(
        session,
        f"{task.kind}.state",
        job_id=task.job_id,
        task_id=task.id,
        attempt_id=attempt.id if attempt else None,
        worker_id=attempt.worker_id if attempt else None,
        before=before,
        after=after,
        actor=actor,
        reason=reason,
        data={"position": task.position},
    )


def tell_ready(session: Session, job_id: str, task_id: str, lane_id: str, reason: str) -> None:
    """Announce a plan task that this transaction has made ready from the start."""
    ledger.wake(session, lane_id)
    ledger.note(
        session,
        "plan.state",
        job_id=job_id,
        task_id=task_id,
        before=TaskState.WAITING,
        after=TaskState.READY,
        reason=reason,
        data={"position": 0},
    )


def move_tasks(
    session: Session,
    job: Job,
    before: Collection[TaskState],
    after: TaskState,
    reason: str,
    *,
    actor: str = "farm",
    where: Iterable[ColumnElement[bool]] = (),
) -> int:
    """Change the state of all tasks of a locked job that are in `before`; one event names them. Returns how many."""
    for state in before:
        states.check(state, after)
    values: dict[str, object] = {"state": after, "reason": reason, "not_before": None}
    if after is TaskState.READY:
        values |= {"ready_at": func.clock_timestamp()}
    session.flush()
    moved = session.execute(
        update(Task)
        .where(Task.job_id == job.id, Task.state.in_(before), *where)
        .values(values)
        .returning(Task.kind, Task.position, Task.lane_id)
        .execution_options(synchronize_session=False)
    ).all()
    # tasks that this session has loaded must not keep the old state
    for loaded in list(session.identity_map.values()):
        if isinstance(loaded, Task) and loaded.job_id == job.id:
            session.expire(loaded)
    if after is TaskState.READY:
        for row in moved:
            ledger.wake(session, row.lane_id)
    for kind in {row.kind for row in moved}:
        positions = sorted(row.position for row in moved if row.kind == kind)
        ledger.note(
            session,
            f"{kind}.state",
            job_id=job.id,
            before=next(iter(before)) if len(before) == 1 else None,
            after=after,
            actor=actor,
            reason=reason,
            data={"positions": positions},
        )
    return len(moved)


def end_attempt(session: Session, attempt: Attempt, task: Task, job: Job, after: AttemptState, reason: str) -> None:
    """End a locked, running attempt: its lease is void from here on. Counts its time and cost to its project."""
    states.check(attempt.state, after)
    session.flush()
    rate = func.coalesce(select(Worker.rate).where(Worker.id == Attempt.worker_id).scalar_subquery(), 0.0)
    seconds, hourly = session.execute(
        update(Attempt)
        .where(Attempt.id == attempt.id)
        .values(
            state=after,
            ended_at=func.clock_timestamp(),
            garbage=after is not AttemptState.DONE or _unwanted(task, job),
            gpu_seconds=func.extract("epoch", func.clock_timestamp() - Attempt.started_at)
            if task.kind in (TaskKind.RENDER, TaskKind.CAST)
            else 0,
        )
        .returning(Attempt.gpu_seconds, rate)
        .execution_options(synchronize_session=False)
    ).one()
    session.refresh(attempt)
    job.gpu_seconds += seconds
    ledger.count(session, job.submitter_id, -1, seconds, seconds / 3600 * hourly)
    ledger.note(
        session,
        "attempt.state",
        job_id=job.id,
        task_id=task.id,
        attempt_id=attempt.id,
        worker_id=attempt.worker_id,
        before=AttemptState.RUNNING,
        after=after,
        reason=reason,
        data={"position": task.position, "kind": str(task.kind), "number": attempt.number},
    )


def _unwanted(task: Task, job: Job) -> bool:
    """Whether what the attempt made is of no use although it finished: a cancelled job has no deliverable."""
    return task.kind is TaskKind.MERGE and job.state is JobState.CANCELLING


def discard_results(session: Session, job: Job, *where: ColumnElement[bool]) -> None:
    """Take the accepted results of chunks of a locked job away; the cleaner removes their objects."""
    session.flush()
    chosen = Chunk.job_id == job.id, Chunk.attempt_id.is_not(None), *where
    session.execute(
        update(Attempt)
        .where(Attempt.id.in_(select(Chunk.attempt_id).where(*chosen)))
        .values(garbage=True)
        .execution_options(synchronize_session=False)
    )
    session.execute(
        update(Chunk)
        .where(*chosen)
        .values(attempt_id=None, outputs=None, report=None)
        .execution_options(synchronize_session=False)
    )
    for loaded in list(session.identity_map.values()):
        if isinstance(loaded, Chunk) and loaded.job_id == job.id:
            session.expire(loaded)


def supersede(session: Session, job: Job, reason: str, *, where: Iterable[ColumnElement[bool]] = ()) -> list[str]:
    """End the running attempts of a locked job at once; their workers hear it. Returns the ids of their tasks."""
    # A claim does not ask for the job's lock. One that is under way holds its task, so it is waited for here and its
    # attempt seen below; one that comes later passes the locked tasks over.
    tasks = select(Task.id).where(Task.job_id == job.id, *where).order_by(Task.id)
    session.execute(tasks.with_for_update(key_share=True)).all()
    running = session.execute(
        select(Attempt, Task)
        .join(Task, Task.id == Attempt.task_id)
        .where(Attempt.job_id == job.id, Attempt.state == AttemptState.RUNNING, *where)
        .order_by(Task.id)
        .with_for_update(key_share=True)
        .execution_options(populate_existing=True)
    ).all()
    for attempt, task in running:
        end_attempt(session, attempt, task, job, AttemptState.SUPERSEDED, reason)
    if running:
        ledger.call(session, job.id)
    return [task.id for _, task in running]


def any_running(session: Session, job: Job) -> bool:
    session.flush()
    return bool(session.scalar(select(exists().where(Attempt.job_id == job.id, Attempt.state == AttemptState.RUNNING))))


def complete_stop(session: Session, job: Job) -> None:
    """PAUSING becomes PAUSED and CANCELLING becomes CANCELLED once no attempt runs."""
    if job.state in _STOPPING_BEFORE and not any_running(session, job):
        after, reason = _STOPPING_BEFORE[job.state]
        if after is JobState.CANCELLED:  # a plan may have made chunks known since it was told to stop
            move_tasks(session, job, states.OPEN_TASK_STATES, TaskState.CANCELLED, "The job was cancelled.")
        move_job(session, job, after, reason)


def ready_state(job: Job) -> TaskState:
    """What a task of this job becomes when its inputs are there."""
    return TaskState.PAUSED if job.state in _HALTED else TaskState.READY


def fail_job(session: Session, job: Job, reason: str) -> None:
    """Fail a locked job now: running attempts lose their leases, open tasks are cancelled."""
    supersede(session, job, f"The job has failed: {reason}")
    move_tasks(session, job, states.OPEN_TASK_STATES, TaskState.CANCELLED, "The job has failed.")
    move_job(session, job, JobState.FAILED, reason)
