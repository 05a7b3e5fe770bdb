"""Takes tasks away from workers that are silent, or alive without any progress."""

from __future__ import annotations

from sqlalchemy import func, or_, select

from farm.db.base import seconds
from farm.db.engine import Sessions, transact
from farm.db.tables import Attempt
from farm.errors import StaleLeaseError
from farm.jobs.fail import expire
from farm.jobs.leases import lease_of
from farm.jobs.policy import DEFAULT, Policy
from farm.jobs.states import AttemptState


class LeaseExpirer:
    """Ends attempts whose lease has run out. Each is looked at again under the lock: a late heartbeat saves it."""

    name = "leases"

    def __init__(self, sessions: Sessions, policy: Policy = DEFAULT) -> None:
        self._sessions = sessions
        self._policy = policy

    def run_once(self) -> int:
        now = func.clock_timestamp()
        with self._sessions() as session:
            late = session.scalars(
                select(Attempt)
                .where(
                    Attempt.state == AttemptState.RUNNING,
                    or_(Attempt.lease_until < now, Attempt.progress_at < now - seconds(self._policy.stuck_seconds)),
                )
                .limit(self._policy.batch)
            ).all()
        return sum(self._expire(attempt) for attempt in late)

    def _expire(self, attempt: Attempt) -> int:
        try:
            return int(transact(self._sessions, lambda session: expire(session, lease_of(attempt), self._policy)))
        except StaleLeaseError:
            return 0  # its job ended in between
