"""What a worker says while it works: heartbeats, and the check that its lease still holds."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import select, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Session
from sqlalchemy.sql import bindparam

from farm.db.tables import Attempt, Job, Task
from farm.errors import NotFoundError, StaleLeaseError
from farm.jobs import moves
from farm.jobs.policy import DEFAULT, Policy
from farm.jobs.states import FINAL_JOB_STATES, AttemptState, JobState, TaskKind
from farm.jobs.wire import HeartbeatAnswer, Lease, Progress

_STOP = {
    JobState.CANCELLING: "cancelled",
    JobState.CANCELLED: "cancelled",
    JobState.PAUSING: "paused",
    JobState.PAUSED: "paused",
}
_SUPERSEDED = "superseded"
_DRAINING = "draining"

# The lease of an attempt that has been told to stop is made shorter: a worker that does not listen soon loses it.
# A heartbeat that a crash of the server loses is followed by the next one, so the disk is not waited for.
_BEAT = text("""
    UPDATE attempt SET
        beat_at = clock_timestamp(),
        lease_until = CASE WHEN j.state IN ('queued', 'running', 'awaiting_cast', 'merging')
            THEN clock_timestamp() + make_interval(secs => greatest(:lease, 4 * beat.seconds))
            ELSE least(lease_until, clock_timestamp() + make_interval(secs => :stop)) END,
        progress_at = CASE WHEN frames_done <> :frames OR note <> :note THEN clock_timestamp() ELSE progress_at END,
        frames_done = :frames, fps = :fps, note = :note, environment = environment || :environment
    FROM job j,
        (SELECT :heartbeat * greatest(1.0, sum(running) / (:per_second * :heartbeat)) AS seconds FROM project) beat
    WHERE lease_token = :token AND attempt.state = 'running' AND j.id = attempt.job_id
    RETURNING j.state, beat.seconds,
        (SELECT true FROM worker w WHERE w.id = attempt.worker_id
         AND w.requested IN ('asleep', 'offline', 'restart') AND NOT w.after_task) AS draining,
        set_config('synchronous_commit', 'off', true)
    """).bindparams(bindparam("environment", type_=JSONB))


def heartbeat(session: Session, lease: Lease, progress: Progress, policy: Policy = DEFAULT) -> HeartbeatAnswer:
    """Report progress, keep the lease, hear whether to go on. One row is written, no lock is waited for.

    When the answer is not `alive`, stop at once and drop the work: for "cancelled", "paused" and "draining" then hand
    the task back with `fail(session, lease, ErrorClass.INTERRUPTED, ...)`; after "superseded" there is nothing to hand
    back.
    """
    row = session.execute(
        _BEAT,
        {
            "token": lease.token,
            "frames": progress.frames_done,
            "fps": progress.fps,
            "note": progress.note,
            "environment": progress.environment,
            "lease": policy.lease_seconds,
            "stop": policy.stop_seconds,
            "heartbeat": policy.heartbeat_seconds,
            "per_second": policy.heartbeats_per_second,
        },
    ).one_or_none()
    if row is None:
        return HeartbeatAnswer(alive=False, reason=_SUPERSEDED, next_seconds=policy.heartbeat_seconds)
    state = JobState(row.state)
    if state is JobState.QUEUED:
        moves.mark_started(session, lease.job_id)
    reason = _STOP.get(state) or (_DRAINING if row.draining else "")
    return HeartbeatAnswer(alive=not reason, reason=reason, next_seconds=float(row.seconds))


@dataclass(frozen=True, slots=True)
class Held:
    """The locked rows behind a lease. `again`: the attempt has reported its end before, and the answer was lost."""

    job: Job
    task: Task
    attempt: Attempt
    again: bool = False


def hold(session: Session, lease: Lease, kind: TaskKind | None = None, *, ended: Collection[AttemptState] = ()) -> Held:
    """Lock the rows behind a lease until the commit; StaleLeaseError when it no longer holds.

    `ended`: states in which the attempt may already be, if this report is a repetition of one that was committed.
    """
    try:
        job = moves.lock_job(session, lease.job_id)
    except NotFoundError:
        raise _stale(lease, "The job was deleted.") from None
    task = session.scalar(
        select(Task)
        .where(Task.id == lease.task_id)
        .with_for_update(key_share=True)
        .execution_options(populate_existing=True)
    )
    attempt = session.scalar(
        select(Attempt)
        .where(Attempt.lease_token == lease.token)
        .with_for_update(key_share=True)
        .execution_options(populate_existing=True)
    )
    if task is None or attempt is None or attempt.task_id != task.id or (kind is not None and task.kind is not kind):
        raise _stale(lease, "The lease does not belong to this task.")
    if attempt.state in ended:
        return Held(job, task, attempt, again=True)
    if attempt.state is not AttemptState.RUNNING:
        raise _stale(lease, f"The attempt is {attempt.state}: another one may be at work.")
    if job.state in FINAL_JOB_STATES:
        raise _stale(lease, f"The job is {job.state}.")
    return Held(job, task, attempt)


def _stale(lease: Lease, what: str) -> StaleLeaseError:
    return StaleLeaseError(
        what, where=f"attempt {lease.attempt_id}", do="Drop all its work, and remove the objects that it stored."
    )
