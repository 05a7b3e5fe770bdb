"""Jobs that somebody wants deleted: what the store has of them, then their rows."""

from __future__ import annotations

from functools import partial

from sqlalchemy import delete, exists, select
from sqlalchemy.orm import Session, aliased

from farm.db.engine import Sessions, transact
from farm.db.tables import Attempt, Dependency, Job
from farm.errors import NotFoundError
from farm.jobs import ledger, moves
from farm.jobs.states import FINAL_JOB_STATES, AttemptState, JobState
from farm.store import keys
from farm.store.base import Store

DELETED = "job.deleted"
_BATCH = 20


class JobRemover:
    """Removes ended jobs that are to be deleted. A reconciler service: any number may run at once.

    The objects go first, so that a process that dies in between leaves a job whose removal is begun again; what a
    worker stores afterwards that was taken for dead is an orphan, which `farm.orphans` finds. What the job has used
    stays counted to its project.
    """

    name = "removal"

    def __init__(self, sessions: Sessions, store: Store) -> None:
        self._sessions = sessions
        self._store = store

    def run_once(self) -> int:
        return sum(self._remove(job_id) for job_id in transact(self._sessions, _due))

    def _remove(self, job_id: str) -> int:
        self._store.delete_prefix(keys.job(job_id))
        return transact(self._sessions, partial(_forget, job_id=job_id))


def _due(session: Session) -> list[str]:
    needing = aliased(Job)
    running = exists().where(Attempt.job_id == Job.id, Attempt.state == AttemptState.RUNNING)
    needed = exists().where(
        Dependency.needs_id == Job.id, needing.id == Dependency.job_id, needing.state == JobState.WAITING
    )
    wanted = (
        select(Job.id)
        .where(Job.delete_at.is_not(None), Job.state.in_(FINAL_JOB_STATES), ~running, ~needed)
        .order_by(Job.delete_at)
        .limit(_BATCH)
    )
    return list(session.scalars(wanted))


def _forget(session: Session, job_id: str) -> int:
    """Take the job's rows away; all that hangs on them goes with it."""
    try:
        job = moves.lock_job(session, job_id)
    except NotFoundError:
        return 0  # another reconciler was faster
    ledger.note(session, DELETED, actor="removal", reason=f"Job {job_id} was deleted.", data={"job": job_id})
    session.execute(delete(Job).where(Job.id == job.id).execution_options(synchronize_session=False))
    session.expunge(job)
    return 1
