"""Pushes jobs that stand still although they could go on, and starts those whose needed jobs have ended."""

from __future__ import annotations

from functools import partial

from sqlalchemy import select, text
from sqlalchemy.orm import Session

from farm.db.engine import Sessions, transact
from farm.db.tables import Dependency, Job, Task
from farm.jobs import moves
from farm.jobs.advance import advance
from farm.jobs.policy import DEFAULT, Policy
from farm.jobs.states import JobState, TaskKind, TaskState

# Nothing is running and nothing can be claimed: either a person is asked, or a step was missed.
_STANDING = text("""
    SELECT j.id FROM job j
    WHERE j.state IN ('queued', 'running', 'merging', 'pausing', 'cancelling')
      AND NOT EXISTS (SELECT 1 FROM attempt a WHERE a.job_id = j.id AND a.state = 'running')
      AND NOT EXISTS (SELECT 1 FROM task t WHERE t.job_id = j.id AND t.state IN ('ready', 'backoff'))
    ORDER BY j.seq LIMIT :batch""")


class Finisher:
    """Calls `advance` for jobs that stand still: merges not begun, pauses and cancels not completed."""

    name = "finisher"

    def __init__(self, sessions: Sessions, policy: Policy = DEFAULT) -> None:
        self._sessions = sessions
        self._policy = policy

    def run_once(self) -> int:
        with self._sessions() as session:
            standing = session.scalars(_STANDING, {"batch": self._policy.batch}).all()
        return sum(transact(self._sessions, partial(self._push, job_id)) for job_id in standing)

    def _push(self, job_id: str, session: Session) -> int:
        job = moves.lock_job(session, job_id)
        before = job.state
        advance(session, job, failed_share=self._policy.failed_share)
        return int(job.state is not before)


class DependencyReleaser:
    """Starts or fails the jobs that waited for others which have ended."""

    name = "dependencies"

    def __init__(self, sessions: Sessions, policy: Policy = DEFAULT) -> None:
        self._sessions = sessions
        self._policy = policy

    def run_once(self) -> int:
        with self._sessions() as session:
            waiting = session.scalars(
                select(Job.id).where(Job.state == JobState.WAITING).order_by(Job.seq).limit(self._policy.batch)
            ).all()
        return sum(transact(self._sessions, partial(self._release, job_id)) for job_id in waiting)

    def _release(self, job_id: str, session: Session) -> int:
        job = moves.lock_job(session, job_id)
        if job.state is not JobState.WAITING:
            return 0
        needed = session.execute(
            select(Job.id, Job.state, Dependency.hard)
            .join(Dependency, Dependency.needs_id == Job.id)
            .where(Dependency.job_id == job_id)
        ).all()
        for need in needed:
            if need.hard and need.state in (JobState.FAILED, JobState.CANCELLED):
                moves.fail_job(session, job, f"Job {need.id}, which it needs, is {need.state}.")
                return 1
        ended = (JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED)
        if not all(need.state in ended for need in needed):
            return 0
        reason = "The jobs that it needs have ended."
        moves.move_job(session, job, JobState.QUEUED, reason)
        plan = [Task.kind == TaskKind.PLAN]
        moves.move_tasks(session, job, [TaskState.WAITING], TaskState.READY, reason, where=plan)
        return 1
