"""What a worker says while it works: heartbeats, and the check that its lease still holds."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from farm.db.engine import Sessions, ask, transact
from farm.db.tables import Attempt, Job, Task
from farm.errors import NotFoundError, StaleLeaseError
from farm.jobs import moves
from farm.jobs.policy import DEFAULT, Policy, policy_json
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

_BEAT = "SELECT state, seconds, draining, carried FROM farm_beat_1(%s, %s, %s, %s, %s::jsonb, %s::jsonb, %s)"


def heartbeat(
    sessions: Sessions, lease: Lease, progress: Progress, policy: Policy = DEFAULT, *, carries: bool = False
) -> HeartbeatAnswer:
    """Report progress, keep the lease, hear whether to go on: one round trip, one row, no lock is waited for.

    When the answer is not `alive`, stop at once and drop the work: for "cancelled", "paused" and "draining" then hand
    the task back with `fail(session, lease, ErrorClass.INTERRUPTED, ...)`; after "superseded" there is nothing to hand
    back.

    carries: say for the attempt's worker, too, that it lives, as `fleet.beat` does, if nobody wants anything of it.
    """
    said = progress.frames_done, progress.fps, progress.note, json.dumps(progress.environment)
    row = ask(sessions, _BEAT, (lease.token, *said, policy_json(policy), carries))
    if row is None:
        return HeartbeatAnswer(alive=False, reason=_SUPERSEDED, next_seconds=policy.heartbeat_seconds)
    state, (seconds, draining, carried) = JobState(row[0]), row[1:]
    if state is JobState.QUEUED:
        transact(sessions, lambda session: moves.mark_started(session, lease.job_id))
    reason = _STOP.get(state) or (_DRAINING if draining else "")
    return HeartbeatAnswer(alive=not reason, reason=reason, next_seconds=seconds, carried_seconds=carried)


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
