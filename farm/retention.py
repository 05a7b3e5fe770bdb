"""What the store may forget: working files, inputs and deliverables of jobs that ended long ago, by the settings."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

from sqlalchemy import exists, func, select
from sqlalchemy.orm import Session

from farm.db.base import seconds
from farm.db.engine import Sessions, transact
from farm.db.tables import Event, Job
from farm.jobs import ledger
from farm.jobs.rerender import RETENTION
from farm.jobs.states import FINAL_JOB_STATES
from farm.settings import Settings
from farm.store import keys
from farm.store.base import Store
from farm.words import counted

PARTS = {
    "working": ("segments/", "timelines/", "chunks/", "previews/"),
    "inputs": ("plate", "pictures/", "identities/", "cast"),
    "deliverables": ("merges/",),
    "logs": ("logs/",),
}
"""What lies under a job's prefix, by how long it is kept."""

_BATCH = 100


@dataclass(frozen=True, slots=True)
class Doomed:
    """What a job has to lose: objects and their bytes."""

    job_id: str
    part: str
    objects: int
    size: int


def ages(settings: Settings) -> dict[str, timedelta]:
    """How long each part is kept after a job's end; a part that is not in it is kept for ever."""
    days = {
        "working": settings.retain_working_days,
        "inputs": settings.retain_inputs_days,
        "deliverables": settings.retain_deliverables_days,
        "logs": settings.retain_log_days,
    }
    return {part: timedelta(days=value) for part, value in days.items() if value is not None}


class Retention:
    """Removes what is due. A reconciler service; `due` only says what it would remove.

    A job that was requeued and has ended again is due again. What is removed is noted in the job's history.

    Parameters
    ----------
    every: seconds between two passes.
    """

    name = "retention"

    def __init__(
        self,
        sessions: Sessions,
        store: Store,
        ages: dict[str, timedelta],
        *,
        every: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sessions = sessions
        self._store = store
        self._ages = ages
        self._every = every
        self._clock = clock
        self._next = clock()

    def due(self, limit: int = _BATCH) -> list[Doomed]:
        """What the next pass would remove, of at most `limit` jobs per part: the dry run."""
        return [
            self._look(job_id, part)
            for part, age in self._ages.items()
            for job_id in transact(self._sessions, partial(_due, part=part, age=age, limit=limit))
        ]

    def run_once(self) -> int:
        if self._clock() < self._next:
            return 0
        self._next = self._clock() + self._every
        doomed = self.due()
        for found in doomed:
            for name in PARTS[found.part]:
                self._store.delete_prefix(keys.job(found.job_id) + name)
            transact(self._sessions, partial(_note, found=found))
        return len(doomed)

    def _look(self, job_id: str, part: str) -> Doomed:
        found = [info for name in PARTS[part] for info in self._store.list(keys.job(job_id) + name)]
        return Doomed(job_id, part, len(found), sum(info.size for info in found))


def _due(session: Session, *, part: str, age: timedelta, limit: int) -> list[str]:
    was: Any = exists().where(
        Event.job_id == Job.id, Event.kind == RETENTION, Event.data["part"].astext == part, Event.at > Job.finished_at
    )
    wanted = (
        select(Job.id)
        .where(
            Job.state.in_(FINAL_JOB_STATES),
            Job.finished_at < func.clock_timestamp() - seconds(age.total_seconds()),
            ~was,
        )
        .order_by(Job.finished_at)
        .limit(limit)
    )
    return list(session.scalars(wanted))


def _note(session: Session, *, found: Doomed) -> None:
    reason = f"Retention removed {counted(found.objects, 'object')} ({found.part})."
    data = {"part": found.part, "objects": found.objects, "bytes": found.size}
    ledger.note(session, RETENTION, job_id=found.job_id, actor="retention", reason=reason, data=data)
