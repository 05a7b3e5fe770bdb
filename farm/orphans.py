"""Objects that belong to no job: what a submission stored before its process died."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

from sqlalchemy import select

from farm.db.engine import Sessions, database_now
from farm.db.tables import Job
from farm.store import keys
from farm.store.base import Store

JOBS = "jobs/"
_BATCH = 500


class OrphanSweeper:
    """Removes the prefixes of jobs that do not exist, and unfinished uploads. A reconciler service.

    Parameters
    ----------
    age: only what is older goes: a submission stores its objects before it makes its job.
    every: seconds between two passes, since a pass lists the whole store.
    now: the database's clock by default; whoever stored an object dated it.
    """

    name = "orphans"

    def __init__(
        self,
        sessions: Sessions,
        store: Store,
        *,
        age: timedelta,
        every: float,
        now: Callable[[], datetime] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sessions = sessions
        self._store = store
        self._age = age
        self._every = every
        self._now = now or (lambda: database_now(sessions))
        self._clock = clock
        self._due = clock()

    def run_once(self) -> int:
        if self._clock() < self._due:
            return 0
        self._due = self._clock() + self._every
        removed = sum(self._store.delete_prefix(keys.job(job_id)) for job_id in self._orphans())
        return removed + self._store.abort_stale_uploads(older_than=self._age)

    def _orphans(self) -> list[str]:
        found: list[str] = []
        for batch in _batches(self._old()):
            known = self._known(batch)
            found += [job_id for job_id in batch if job_id not in known]
        return found

    def _old(self) -> Iterator[str]:
        """Ids in the store whose newest object is old enough."""
        until = self._now() - self._age
        newest: dict[str, datetime] = {}
        for info in self._store.list(JOBS):
            job_id = info.key.split("/")[1]
            newest[job_id] = max(info.modified, newest.get(job_id, info.modified))
        return (job_id for job_id, modified in newest.items() if modified < until)

    def _known(self, batch: list[str]) -> set[str]:
        with self._sessions() as session:
            return set(session.scalars(select(Job.id).where(Job.id.in_(batch))))


def _batches(ids: Iterator[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    for job_id in ids:
        batch.append(job_id)
        if len(batch) == _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch
