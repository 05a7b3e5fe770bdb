"""Removes what attempts stored that nobody wants any more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from farm.db.base import seconds
from farm.db.engine import Sessions, transact
from farm.db.tables import Attempt, Task
from farm.jobs.policy import DEFAULT, Policy
from farm.jobs.rerender import let_go
from farm.jobs.states import TaskKind


@dataclass(frozen=True, slots=True)
class Garbage:
    """An attempt whose objects are to be removed; with `farm.store.keys` it says where they lie."""

    job_id: str
    kind: TaskKind
    position: int
    attempt_id: str


class StaleCleaner:
    """Hands attempts that are garbage to `remove`, some time after their end: a frozen worker may still be writing."""

    name = "cleaner"

    def __init__(self, sessions: Sessions, remove: Callable[[Garbage], None], policy: Policy = DEFAULT) -> None:
        self._sessions = sessions
        self._remove = remove
        self._policy = policy

    def run_once(self) -> int:
        with self._sessions() as session:
            found = self._due(session)
        # the store is slow: no transaction is open meanwhile, and what two cleaners remove twice is no harm
        for garbage in found:
            self._remove(garbage)
        done = update(Attempt).where(Attempt.id.in_([g.attempt_id for g in found]))
        if found:
            transact(self._sessions, lambda session: session.execute(done.values(cleaned_at=func.clock_timestamp())))
        return len(found)

    def _due(self, session: Session) -> list[Garbage]:
        rows = session.execute(
            select(Attempt.job_id, Task.kind, Task.position, Attempt.id)
            .join(Task, Task.id == Attempt.task_id)
            .where(
                Attempt.garbage,
                Attempt.cleaned_at.is_(None),
                Attempt.ended_at < func.clock_timestamp() - seconds(self._policy.garbage_seconds),
            )
            .order_by(Attempt.ended_at)
            .limit(self._policy.batch)
        )
        return [Garbage(*row) for row in rows]


class KeptResults:
    """Gives up results that were kept while a job was rendered again with another recipe, once it has ended."""

    name = "kept"

    def __init__(self, sessions: Sessions, policy: Policy = DEFAULT) -> None:
        self._sessions = sessions
        self._policy = policy

    def run_once(self) -> int:
        grace, most = self._policy.garbage_seconds, self._policy.batch
        return transact(self._sessions, lambda session: let_go(session, grace=grace, most=most))
