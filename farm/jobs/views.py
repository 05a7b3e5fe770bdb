"""What can be seen of jobs, chunks, workers and events: plain data, read without locks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict
from sqlalchemy import Select, and_, func, select
from sqlalchemy.dialects.postgresql import distinct_on
from sqlalchemy.orm import Session

from farm.db.tables import (
    Attempt,
    Batch,
    Block,
    Chunk,
    Deliverable,
    Event,
    Job,
    Plate,
    Project,
    SlotRow,
    Submitter,
    Task,
    Worker,
)
from farm.errors import NotFoundError
from farm.jobs.progress import JobProgress, progress_of
from farm.jobs.states import FINAL_JOB_STATES, AttemptState, JobState


class View(BaseModel):
    model_config = ConfigDict(frozen=True, from_attributes=True)


class DeliverableView(View):
    """A finished file: where it lies and what is known of it."""

    name: str
    object_key: str
    size: int
    sha256: str
    facts: dict[str, Any]
    created_at: datetime


class JobView(View):
    """A job as it stands. `request` is the JobRequest as JSON; `plate_facts` PlateFacts as JSON, once probed.

    `cost` is money by the rates (per GPU hour) of the workers that have one, None where none of them has.
    """

    id: str
    seq: int
    project: str
    owner: str
    title: str
    state: JobState
    reason: str
    priority: int
    tags: list[str]
    request: dict[str, Any]
    plate_facts: dict[str, Any] | None
    mapping: dict[str, Any] | None
    cast_key: str | None
    cast_members: list[dict[str, Any]] | None
    batch: str | None
    deadline: datetime | None
    max_attempts: int
    max_retries: int | None
    delete_at: datetime | None
    gpu_seconds: float
    cost: float | None
    error_class: str | None
    progress: JobProgress
    deliverables: list[DeliverableView]
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None

    @property
    def final(self) -> bool:
        return self.state in FINAL_JOB_STATES


class ChunkView(View):
    """Frames [first, last) and how far they are; `worker_id` has the chunk now, or had it last."""

    position: int
    first: int
    last: int
    seconds: float
    as_is: bool
    state: str
    reason: str
    attempts: int
    frames_done: int
    fps: float | None
    note: str
    worker_id: str | None


class AttemptView(View):
    """One try, with what was really used (`environment`) and why it ended."""

    id: str
    task_id: str
    kind: str
    position: int
    number: int
    worker_id: str
    slot: int
    state: AttemptState
    frames_done: int
    fps: float | None
    note: str
    error_class: str | None
    error: str | None
    cause: str | None
    environment: dict[str, Any]
    gpu_seconds: float
    cost: float | None
    started_at: datetime
    ended_at: datetime | None


class EventView(View):
    """One change and its reason."""

    id: int
    kind: str
    job_id: str | None
    task_id: str | None
    attempt_id: str | None
    worker_id: str | None
    before: str | None
    after: str | None
    actor: str
    reason: str
    data: dict[str, Any]
    at: datetime


class SlotView(View):
    number: int
    device: str
    vram_mb: int
    kinds: list[str]


class BlockView(View):
    """A job's tasks that a worker gets no more of, until it is forgiven."""

    job_id: str
    kind: str
    reason: str


class WorkerView(View):
    """A worker; `busy` attempts are running on it. `rate`: money per slot and hour. `blocks`: what it gets no more."""

    id: str
    name: str
    state: str
    requested: str | None
    reason: str
    tags: list[str]
    capabilities: dict[str, Any]
    version: str
    slots: list[SlotView]
    busy: int
    rate: float | None
    blocks: list[BlockView]
    started_at: datetime
    seen_at: datetime


class Page(View):
    """Jobs, newest first; `before` is what to ask for next, None at the end."""

    items: list[JobView]
    before: int | None


def job_view(session: Session, job_id: str) -> JobView:
    """One job. NotFoundError when there is none."""
    found = _views(session, _jobs().where(Job.id == job_id))
    if not found:
        raise NotFoundError("There is no such job.", where=f"job {job_id}", do="List the jobs with `farm jobs`.")
    return found[0]


def list_jobs(
    session: Session,
    *,
    states: Sequence[JobState] | None = None,
    project: str | None = None,
    batch: str | None = None,
    before: int | None = None,
    limit: int = 50,
) -> Page:
    """Jobs, newest first, in `states` (all by default), whose `seq` is smaller than `before`."""
    wanted = _jobs().order_by(Job.seq.desc()).limit(limit + 1)
    if states is not None:
        wanted = wanted.where(Job.state.in_(states))
    if project is not None:
        wanted = wanted.where(Project.name == project)
    if batch is not None:
        wanted = wanted.where(Batch.name == batch)
    if before is not None:
        wanted = wanted.where(Job.seq < before)
    found = _views(session, wanted)
    more = len(found) > limit
    return Page(items=found[:limit], before=found[limit - 1].seq if more else None)


def open_counts(session: Session) -> dict[JobState, int]:
    """How many jobs that have not ended are in each state."""
    rows = session.execute(
        select(Job.state, func.count()).where(Job.state.not_in(FINAL_JOB_STATES)).group_by(Job.state)
    )
    return dict(rows.all())


def chunks(session: Session, job_id: str) -> list[ChunkView]:
    """The chunks of a job, in order."""
    latest = (
        select(Attempt.worker_id, Attempt.frames_done, Attempt.fps, Attempt.note, Attempt.state)
        .where(Attempt.task_id == Task.id)
        .order_by(Attempt.number.desc())
        .limit(1)
        .lateral()
    )
    rows = session.execute(
        select(
            Chunk.position,
            Chunk.first,
            Chunk.last,
            Chunk.seconds,
            Chunk.as_is,
            Task.state,
            Task.reason,
            Task.attempts,
            func.coalesce(latest.c.frames_done, 0).label("frames_done"),
            latest.c.fps,
            func.coalesce(latest.c.note, "").label("note"),
            latest.c.worker_id,
        )
        .join(Task, and_(Task.id == Chunk.task_id, Task.job_id == Chunk.job_id))
        .outerjoin(latest, latest.c.state.is_not(None))
        .where(Chunk.job_id == job_id)
        .order_by(Chunk.position)
    )
    return [ChunkView.model_validate(row) for row in rows]


def chunk_reports(session: Session, job_id: str) -> list[dict[str, Any]]:
    """What the accepted chunks of a job say of their frames, in order."""
    rows = session.scalars(
        select(Chunk.report)
        .where(Chunk.job_id == job_id, Chunk.attempt_id.is_not(None), Chunk.report.is_not(None))
        .order_by(Chunk.position)
    )
    return [row for row in rows if row]


def attempts(session: Session, job_id: str, *, limit: int = 1000, attempt_id: str | None = None) -> list[AttemptView]:
    """The attempts of a job, newest first, or one of them."""
    only = () if attempt_id is None else (Attempt.id == attempt_id,)
    rows = session.execute(
        select(Attempt, Task.kind, Task.position, (Attempt.gpu_seconds * Worker.rate / 3600).label("cost"))
        .join(Task, Task.id == Attempt.task_id)
        .outerjoin(Worker, Worker.id == Attempt.worker_id)
        .where(Attempt.job_id == job_id, *only)
        .order_by(Attempt.started_at.desc())
        .limit(limit)
    )
    names = set(AttemptView.model_fields) - {"kind", "position", "cost"}
    return [
        AttemptView.model_validate(
            {n: getattr(a, n) for n in names} | {"kind": str(kind), "position": position, "cost": cost}
        )
        for a, kind, position, cost in rows
    ]


def events_after(session: Session, job_id: str, after: int = 0, *, limit: int = 200) -> list[EventView]:
    """The events of a job with an id above `after`, in order. None is ever seen late: ids rise with the commits."""
    rows = session.scalars(
        select(Event).where(Event.job_id == job_id, Event.id > after).order_by(Event.id).limit(limit)
    )
    return [EventView.model_validate(row) for row in rows]


def workers(session: Session) -> list[WorkerView]:
    """All workers that are known, live ones first."""
    busy = dict(
        session.execute(
            select(Attempt.worker_id, func.count())
            .where(Attempt.state == AttemptState.RUNNING)
            .group_by(Attempt.worker_id)
        ).all()
    )
    slots: dict[str, list[SlotView]] = {}
    for slot in session.scalars(select(SlotRow).order_by(SlotRow.worker_id, SlotRow.number)):
        slots.setdefault(slot.worker_id, []).append(SlotView.model_validate(slot))
    rows = session.scalars(select(Worker).order_by(Worker.state == "offline", Worker.name, Worker.id))
    blocks: dict[str, list[BlockView]] = {}
    for block in session.scalars(select(Block).order_by(Block.created_at)):
        blocks.setdefault(block.worker_id, []).append(BlockView.model_validate(block))
    names = set(WorkerView.model_fields) - {"slots", "busy", "blocks"}
    return [
        WorkerView.model_validate(
            {n: getattr(row, n) for n in names}
            | {"slots": slots.get(row.id, []), "busy": busy.get(row.id, 0), "blocks": blocks.get(row.id, [])}
        )
        for row in rows
    ]


_Jobs = Select[tuple[Job, str, str, str | None, dict[str, Any] | None, int | None]]


def _jobs() -> _Jobs:
    return (
        select(Job, Project.name, Submitter.owner, Batch.name, Plate.facts, Plate.frames)
        .join(Project, Project.id == Job.project_id)
        .join(Submitter, Submitter.id == Job.submitter_id)
        .join(Plate, Plate.job_id == Job.id)
        .outerjoin(Batch, Batch.id == Job.batch_id)
    )


def _views(
    session: Session, wanted: Select[tuple[Job, str, str, str | None, dict[str, Any] | None, int | None]]
) -> list[JobView]:
    rows = session.execute(wanted).all()
    # what nobody has begun, ever, has neither chunks nor costs nor files: a burst of submissions need not ask for them
    begun = {job.id: frames for job, *_, frames in rows if job.started_at is not None or job.gpu_seconds}
    progress = progress_of(session, begun)
    made = _deliverables(session, list(begun))
    errors = _error_classes(session, [job.id for job, *_ in rows if job.state is JobState.FAILED])
    costs = costs_of(session, list(begun))
    names = set(JobView.model_fields) & set(Job.__table__.columns.keys())
    return [
        JobView.model_validate(
            {name: getattr(job, name) for name in names}
            | {
                "project": project,
                "owner": owner,
                "batch": batch,
                "plate_facts": facts,
                "cost": costs.get(job.id),
                "error_class": errors.get(job.id),
                "progress": progress.get(job.id, JobProgress(frames_total=frames)),
                "deliverables": made.get(job.id, []),
            }
        )
        for job, project, owner, batch, facts, frames in rows
    ]


def _deliverables(session: Session, ids: list[str]) -> dict[str, list[DeliverableView]]:
    made: dict[str, list[DeliverableView]] = {}
    if ids:
        wanted = select(Deliverable).where(Deliverable.job_id.in_(ids), Deliverable.current).order_by(Deliverable.id)
        for row in session.scalars(wanted):
            made.setdefault(row.job_id, []).append(DeliverableView.model_validate(row))
    return made


def _error_classes(session: Session, failed: list[str]) -> dict[str, str | None]:
    """The class of the last error of each failed job."""
    if not failed:
        return {}
    rows = session.execute(
        select(Attempt.job_id, Attempt.error_class)
        .ext(distinct_on(Attempt.job_id))
        .where(Attempt.job_id.in_(failed), Attempt.error_class.is_not(None), Attempt.state != AttemptState.INTERRUPTED)
        .order_by(Attempt.job_id, Attempt.ended_at.desc())
    )
    return dict(rows.all())


def costs_of(session: Session, ids: list[str]) -> dict[str, float]:
    """What the ended attempts of the jobs have cost, where their workers have a rate."""
    if not ids:
        return {}
    rows = session.execute(
        select(Attempt.job_id, func.sum(Attempt.gpu_seconds * Worker.rate) / 3600)
        .join(Worker, Worker.id == Attempt.worker_id)
        .where(Attempt.job_id.in_(ids), Worker.rate.is_not(None))
        .group_by(Attempt.job_id)
    )
    return dict(rows.all())
