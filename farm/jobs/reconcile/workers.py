"""Notices workers that are gone without a word."""

from __future__ import annotations

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from farm.db.base import seconds
from farm.db.engine import Sessions, transact
from farm.db.enums import WorkerState
from farm.db.tables import Worker
from farm.jobs import fleet, ledger
from farm.jobs.policy import DEFAULT, Policy

_REPORTS = 3
"""So many reports in a row have to be missing: in a farm of more than 10,000 workers each is heard of more rarely."""


class WorkerReaper:
    """Marks silent workers as offline. Their leases run out by themselves; this is for people and for the scheduler."""

    name = "workers"

    def __init__(self, sessions: Sessions, policy: Policy = DEFAULT) -> None:
        self._sessions = sessions
        self._policy = policy

    def run_once(self) -> int:
        return transact(self._sessions, self._pass)

    def _pass(self, session: Session) -> int:
        most = max(self._policy.worker_silent_seconds, _REPORTS * fleet.interval(session, self._policy))
        silent = session.scalars(
            select(Worker)
            .where(
                Worker.state != WorkerState.OFFLINE,
                Worker.seen_at < func.clock_timestamp() - seconds(most),
            )
            .limit(self._policy.batch)
            .with_for_update(skip_locked=True, key_share=True)
        ).all()
        for worker in silent:
            reason = f"It was silent for {most:.0f} s."
            before, worker.state, worker.reason = worker.state, WorkerState.OFFLINE, reason
            ledger.note(
                session, "worker.state", worker_id=worker.id, before=before, after=WorkerState.OFFLINE, reason=reason
            )
        return len(silent)
