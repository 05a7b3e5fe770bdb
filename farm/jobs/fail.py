"""The end of an attempt that did not do its work: reported by its worker, or by its silence."""

from __future__ import annotations

from typing import Any

from sqlalchemy import and_, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from farm.db.base import seconds
from farm.db.enums import WorkerState
from farm.db.tables import Attempt, Block, Job, SlotRow, Task, Worker
from farm.errors import ErrorClass
from farm.jobs import ledger, moves
from farm.jobs.advance import advance
from farm.jobs.policy import DEFAULT, Policy
from farm.jobs.report import Held, hold
from farm.jobs.states import AttemptState, JobState, TaskKind, TaskState
from farm.jobs.verdict import Next, Tries, Verdict, judge, judge_lost
from farm.jobs.wire import Lease
from farm.words import counted

_FREE = frozenset({ErrorClass.INTERRUPTED, ErrorClass.STALE_LEASE})
_CHARGED = (ErrorClass.UNKNOWN.value, ErrorClass.CONFLICT.value)
_ENDS = (AttemptState.FAILED, AttemptState.INTERRUPTED)


def fail(
    session: Session,
    lease: Lease,
    error_class: ErrorClass | str,
    message: str,
    policy: Policy = DEFAULT,
    *,
    environment: dict[str, Any] | None = None,
    cause: str = "",
) -> TaskState:
    """Report that an attempt ended without a result; the state of its task afterwards.

    `message` is for a person: what went wrong, where (chunk, frame, file), what to do; `cause` says which error it was
    at the bottom, and where in the code. INTERRUPTED hands the task back
    (drain, pause, cancel) at no cost. A repetition changes nothing. StaleLeaseError: the lease no longer holds, there
    is nothing to report.
    """
    error_class = ErrorClass(error_class)
    held = hold(session, lease, ended=_ENDS)
    if held.again:
        return held.task.state
    attempt = held.attempt
    attempt.error_class, attempt.error, attempt.cause = error_class.value, message, cause or None
    attempt.environment = attempt.environment | (environment or {})
    free = error_class in _FREE
    moves.end_attempt(
        session,
        attempt,
        held.task,
        held.job,
        AttemptState.INTERRUPTED if free else AttemptState.FAILED,
        message,
    )
    verdict = judge(error_class, _tries(session, held), held.job.max_attempts, policy)
    if error_class.value in _CHARGED:
        _avoid(session, held, policy)
    _conclude(session, held, verdict, message, policy)
    return held.task.state


def expire(session: Session, lease: Lease, policy: Policy = DEFAULT) -> bool:
    """End the attempt if its lease has run out, or if it beats without any progress. Returns whether it was ended."""
    held = hold(session, lease, ended=tuple(s for s in AttemptState if s is not AttemptState.RUNNING))
    attempt = held.attempt
    now = func.clock_timestamp()
    silent, stuck = session.execute(
        select(attempt.lease_until < now, attempt.progress_at < now - seconds(policy.stuck_seconds))
    ).one()
    if held.again or not (silent or stuck):
        return False
    reason = f"Worker {attempt.worker_id} was silent until its lease ran out."
    if not silent:
        reason = f"Worker {attempt.worker_id} made no progress for {policy.stuck_seconds:.0f} s."
    _lose(session, held, reason, policy)
    return True


def note_cause(session: Session, attempt_id: str, cause: str) -> None:
    """Say of an attempt that ended without a word what its log says of that; what it reported itself stands."""
    session.execute(
        update(Attempt)
        .where(Attempt.id == attempt_id, Attempt.cause.is_(None), Attempt.state != AttemptState.DONE)
        .values(cause=cause)
    )


def lose(session: Session, lease: Lease, reason: str, policy: Policy = DEFAULT) -> bool:
    """End an attempt whose process is known to be dead, without waiting for its lease. Returns whether it was ended."""
    held = hold(session, lease, ended=tuple(s for s in AttemptState if s is not AttemptState.RUNNING))
    if held.again:
        return False
    _lose(session, held, reason, policy)
    return True


def _lose(session: Session, held: Held, reason: str, policy: Policy) -> None:
    attempt = held.attempt
    attempt.error_class, attempt.error = "lost", reason
    moves.end_attempt(session, attempt, held.task, held.job, AttemptState.EXPIRED, reason)
    tries = _tries(session, held)
    # a worker that was told to stop and did so without a word has not died of the task
    stopping = held.job.state in (JobState.PAUSING, JobState.CANCELLING)
    verdict = judge(ErrorClass.INTERRUPTED, tries, 1, policy) if stopping else judge_lost(tries, policy)
    _conclude(session, held, verdict, reason, policy)


def _tries(session: Session, held: Held) -> Tries:
    task = held.task
    failed_by = select(func.count(Attempt.worker_id.distinct())).where(
        Attempt.task_id == task.id, Attempt.state == AttemptState.FAILED, Attempt.error_class.in_(_CHARGED)
    )
    return Tries(
        charged=task.charged,
        lost=task.lost,
        shrunk=task.shrunk,
        handed_back=task.handed_back,
        delayed=task.delayed,
        workers=session.scalar(failed_by) or 0,
    )


def _conclude(session: Session, held: Held, verdict: Verdict, message: str, policy: Policy) -> None:
    job, task, attempt = held.job, held.task, held.attempt
    tries, task_charged = verdict.tries, task.charged
    task.charged, task.lost, task.shrunk = tries.charged, tries.lost, tries.shrunk
    charged = tries.charged > task_charged
    task.handed_back, task.delayed = tries.handed_back, tries.delayed
    if job.state is JobState.CANCELLING:
        moves.move_task(session, task, TaskState.CANCELLED, "The job was cancelled.", attempt=attempt)
    elif verdict.next is Next.FAIL_JOB or (verdict.next is Next.FAIL_TASK and task.kind is not TaskKind.RENDER):
        moves.move_task(session, task, TaskState.FAILED, message, attempt=attempt)
        moves.fail_job(session, job, _blame(task, message))
        return
    elif charged and (why := _out_of_retries(session, job)):
        moves.move_task(session, task, TaskState.FAILED, _together(message, why), attempt=attempt)
        moves.fail_job(session, job, f"{why} The last was: {_blame(task, message)}")
        return
    elif verdict.next is Next.FAIL_TASK:
        moves.move_task(session, task, TaskState.FAILED, _together(message, verdict.why), attempt=attempt)
    elif job.state in (JobState.PAUSING, JobState.PAUSED):
        moves.move_task(session, task, TaskState.PAUSED, "The job is paused.", attempt=attempt)
    elif verdict.next is Next.LATER:
        why = _together(message, verdict.why)
        moves.move_task(session, task, TaskState.BACKOFF, why, attempt=attempt, delay=verdict.delay)
    else:
        moves.move_task(session, task, TaskState.READY, _together(message, verdict.why), attempt=attempt)
    advance(session, job, failed_share=policy.failed_share)


def _out_of_retries(session: Session, job: Job) -> str:
    """Why no task of the job may be tried again: all of them together have failed too often. "" while they may."""
    if job.max_retries is None:
        return ""
    session.flush()
    failures = session.scalar(select(func.sum(Task.charged)).where(Task.job_id == job.id)) or 0
    if failures <= job.max_retries:
        return ""
    limit = counted(job.max_retries, "retry", "retries")
    return f"The tasks of the job failed {counted(failures, 'time')} in all, and its limit is {limit}."


def _together(message: str, why: str) -> str:
    """Two sentences; a library's message does not end like one."""
    return f"{message.rstrip()}{'' if message.rstrip().endswith(('.', '!', '?')) else '.'} {why}"


def _blame(task: Task, message: str) -> str:
    return f"Chunk {task.position}: {message}" if task.kind is TaskKind.RENDER else f"The {task.kind}: {message}"


def _avoid(session: Session, held: Held, policy: Policy) -> None:
    """Let another worker try next where there is one, and block a worker that fails one chunk after the other."""
    task, worker = held.task, held.attempt.worker_id
    tried = {*task.avoid, worker}
    others = _others(session, task.kind, tried, policy)
    task.avoid = sorted(tried) if others else []
    if not _others(session, task.kind, {worker}, policy):
        return
    failures = session.scalar(
        select(func.count())
        .select_from(Attempt)
        .join(Task, Task.id == Attempt.task_id)
        .where(
            Attempt.job_id == task.job_id,
            Attempt.worker_id == worker,
            Attempt.error_class.in_(_CHARGED),
            Task.kind == task.kind,
        )
    )
    if failures is None or failures < policy.block_after:
        return
    reason = f"It failed {counted(failures, f'{task.kind} task')} of this job."
    made = session.execute(
        insert(Block)
        .values(worker_id=worker, job_id=task.job_id, kind=task.kind, reason=reason)
        .on_conflict_do_nothing()
        .returning(Block.worker_id)
    ).first()
    if made is not None:
        ledger.note(session, "worker.blocked", job_id=task.job_id, worker_id=worker, reason=reason)


def _others(session: Session, kind: TaskKind, tried: set[str], policy: Policy) -> bool:
    """Whether a live worker that takes this kind of task has not tried."""
    alive = Worker.seen_at > func.clock_timestamp() - func.make_interval(0, 0, 0, 0, 0, 0, policy.worker_silent_seconds)
    takes_kind = or_(SlotRow.kinds == [], func.array_position(SlotRow.kinds, kind.value).is_not(None))
    found = session.scalar(
        select(Worker.id)
        .join(SlotRow, SlotRow.worker_id == Worker.id)
        .where(and_(alive, Worker.state == WorkerState.AWAKE, Worker.id.not_in(tried), takes_kind))
        .limit(1)
    )
    return found is not None
