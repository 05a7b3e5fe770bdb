"""Foresees that a job will miss its deadline, and says so while somebody can still do something about it."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from farm.db.engine import Sessions, transact
from farm.db.tables import Job, Plate
from farm.jobs import ledger, moves
from farm.jobs.deadline import Outlook, foresee
from farm.jobs.progress import progress_of
from farm.jobs.states import FINAL_JOB_STATES


class DeadlineWatcher:
    """Writes `job.late` when the rate at which a job renders will not do, or the deadline has passed; `job.on_time`
    when it will do again. One event for each change, by the database's clock. The ETA's own error is allowed for.

    A look counts the chunks of every job in question, so it is taken every `every` seconds and at the `most` jobs whose
    deadlines come first, those that are not late yet before those that are.
    """

    name = "deadlines"

    def __init__(
        self,
        sessions: Sessions,
        *,
        every: float = 10.0,
        most: int = 100,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sessions = sessions
        self._every = every
        self._most = most
        self._clock = clock
        self._next = clock()

    def run_once(self) -> int:
        if self._clock() < self._next:
            return 0
        self._next = self._clock() + self._every
        with self._sessions() as session:
            changed = [job_id for job_id, outlook, late in self._outlooks(session) if outlook.late is not late]
        return sum(transact(self._sessions, partial(self._tell, job_id)) for job_id in changed)

    def _outlooks(self, session: Session, only: str | None = None) -> list[tuple[str, Outlook, bool]]:
        open_ones = Job.deadline.is_not(None), Job.state.not_in(FINAL_JOB_STATES)
        wanted = (
            select(Job.id, Job.deadline, Job.late_since, Plate.frames, func.clock_timestamp().label("now"))
            .join(Plate, Plate.job_id == Job.id)
            .where(*open_ones, *((Job.id == only,) if only else ()))
            .order_by(Job.late_since.is_not(None), Job.deadline)
            .limit(self._most)
        )
        rows = session.execute(wanted).all()
        progress = progress_of(session, {row.id: row.frames for row in rows})
        return [
            (row.id, foresee(row.deadline, row.now, progress[row.id]), row.late_since is not None)
            for row in rows
            if row.deadline is not None
        ]

    def _tell(self, job_id: str, session: Session) -> int:
        job = moves.lock_job(session, job_id)
        for _, outlook, late in self._outlooks(session, job_id):
            if outlook.late is late:
                return 0
            job.late_since = func.clock_timestamp() if outlook.late else None
            kind = "job.late" if outlook.late else "job.on_time"
            late_by = outlook.by // timedelta(seconds=1)
            ledger.note(session, kind, job_id=job_id, reason=outlook.words, data={"late_by_seconds": late_by})
            return 1
        return 0
