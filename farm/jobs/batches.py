"""Jobs that were submitted together, as one: how many are in which state, and how far they are."""

from __future__ import annotations

import math

from pydantic import BaseModel, ConfigDict
from sqlalchemy import select
from sqlalchemy.orm import Session

from farm.db.tables import Batch, Job, Plate
from farm.errors import NotFoundError
from farm.jobs.progress import JobProgress, progress_of
from farm.jobs.states import FINAL_JOB_STATES
from farm.jobs.views import costs_of


class BatchView(BaseModel):
    """`states` counts the jobs by state. `progress` adds up what is known; `frames_total` only once all is."""

    model_config = ConfigDict(frozen=True)

    name: str
    jobs: int
    states: dict[str, int]
    final: bool
    progress: JobProgress
    gpu_seconds: float
    cost: float | None


def batch_view(session: Session, name: str) -> BatchView:
    """The batch of this name, of whatever project. NotFoundError when there is none."""
    rows = session.execute(
        select(Job.id, Job.state, Job.gpu_seconds, Plate.frames)
        .join(Batch, Batch.id == Job.batch_id)
        .join(Plate, Plate.job_id == Job.id)
        .where(Batch.name == name)
    ).all()
    if not rows:
        raise NotFoundError("There is no such batch.", where=f"batch {name}", do="Name one with `farm submit --batch`.")
    progress = progress_of(session, {row.id: row.frames for row in rows})
    states: dict[str, int] = {}
    for row in sorted(rows, key=lambda row: str(row.state)):
        states[str(row.state)] = states.get(str(row.state), 0) + 1
    costs = costs_of(session, [row.id for row in rows])
    open_ = [progress[row.id] for row in rows if row.state not in FINAL_JOB_STATES]
    return BatchView(
        name=name,
        jobs=len(rows),
        states=states,
        final=not open_,
        progress=together(list(progress.values()), open_),
        gpu_seconds=sum(row.gpu_seconds for row in rows),
        cost=sum(costs.values()) if costs else None,
    )


def together(jobs: list[JobProgress], open_: list[JobProgress]) -> JobProgress:
    """The progress of several jobs as one; `open_` are those that have not ended.

    The time left is the longest of the open jobs', which run side by side; it is not known while one of them has not
    begun, and its error is that job's.
    """
    totals = [job.frames_total for job in jobs]
    known = bool(open_) and all(job.eta_seconds is not None for job in open_)
    last = max(open_, key=lambda job: job.eta_seconds or 0.0) if known else None
    rate = math.fsum(job.fps or 0.0 for job in open_)
    return JobProgress(
        frames_done=sum(job.frames_done for job in jobs),
        frames_total=sum(total for total in totals if total is not None) if None not in totals else None,
        chunks_done=sum(job.chunks_done for job in jobs),
        chunks_failed=sum(job.chunks_failed for job in jobs),
        chunks_total=sum(job.chunks_total for job in jobs),
        running=sum(job.running for job in jobs),
        fps=rate or None,
        eta_seconds=last.eta_seconds if last else None,
        eta_error=last.eta_error if last else None,
    )
