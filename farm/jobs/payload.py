"""What a claim carries: the job, and the parts of it that the task needs."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Row, exists, select
from sqlalchemy.orm import Session

from farm.db.tables import Chunk, Job, Plate, Project, Task
from farm.jobs.request import JobRequest
from farm.jobs.states import TaskKind, TaskState
from farm.jobs.wire import WIRE, ChunkDone, ChunkTask, Claim, JobSpec, Lease, Slot


def load_claim(session: Session, slot: Slot, lease: Lease, taken: Row[Any]) -> Claim:
    """The claim for a task that was just taken (id, job_id, kind, position, attempts, shrunk)."""
    kind = TaskKind(taken.kind)
    planned = exists().where(Task.job_id == Job.id, Task.kind == TaskKind.PLAN, Task.state == TaskState.DONE)
    row = session.execute(
        select(
            Job.request,
            Job.mapping,
            Job.cast_key,
            Job.needs_cast,
            Job.consent,
            Job.permit,
            Project.name.label("project"),
            Plate.facts,
            Plate.frames,
            Plate.timeline_key,
            Plate.by_decode,
            planned.label("planned"),
            *Chunk.__table__.columns,
        )
        .join(Plate, Plate.job_id == Job.id)
        .join(Project, Project.id == Job.project_id)
        .outerjoin(Chunk, Chunk.task_id == lease.task_id)
        .where(Job.id == lease.job_id)
    ).one()
    request = JobRequest.model_validate(row.request)
    return Claim(
        wire=min(WIRE, slot.wire),
        lease=lease,
        kind=kind,
        position=taken.position,
        number=taken.attempts,
        shrunk=taken.shrunk,
        job=_spec(lease.job_id, request, row),
        facts=row.facts,
        frames=row.frames,
        timeline_key=row.timeline_key,
        cast_key=row.cast_key,
        mapping=row.mapping,
        chunk=chunk_task(row) if kind is TaskKind.RENDER else None,
        chunks=tuple(chunk_task(c) for c in _chunks(session, lease.job_id)) if kind is TaskKind.CAST else (),
        done=tuple(_chunk_done(c) for c in _chunks(session, lease.job_id)) if kind is TaskKind.MERGE else (),
        plan_by_decode=row.by_decode,
        plan_finished=row.planned,
    )


def plan_finished(session: Session, job_id: str) -> bool:
    done = exists().where(Task.job_id == job_id, Task.kind == TaskKind.PLAN, Task.state == TaskState.DONE)
    return bool(session.scalar(select(done)))


def _spec(job_id: str, request: JobRequest, row: Row[Any]) -> JobSpec:
    return JobSpec(
        id=job_id,
        project=row.project,
        recipe=request.recipe,
        deliverables=request.deliverables,
        options=request.options,
        chunk_seconds=request.chunk_seconds,
        plate=request.plate,
        identities=request.identities,
        mapping_request=request.mapping,
        needs_cast=row.needs_cast,
        consent=row.consent,
        permit=row.permit,
    )


def _chunks(session: Session, job_id: str) -> list[Chunk]:
    return list(session.scalars(select(Chunk).where(Chunk.job_id == job_id).order_by(Chunk.position)))


def _plain(chunk: Chunk | Row[Any]) -> dict[str, Any]:
    return {
        "position": chunk.position,
        "first": chunk.first,
        "last": chunk.last,
        "seconds": chunk.seconds,
        "segment_key": chunk.segment_key,
        "segment_sha256": chunk.segment_sha256,
        "segment_size": chunk.segment_size,
        "plan": chunk.plan,
        "as_is": chunk.as_is,
    }


def chunk_task(chunk: Chunk | Row[Any]) -> ChunkTask:
    return ChunkTask.model_validate(_plain(chunk))


def _chunk_done(chunk: Chunk) -> ChunkDone:
    return ChunkDone.model_validate(
        _plain(chunk) | {"attempt_id": chunk.attempt_id, "outputs": chunk.outputs, "report": chunk.report}
    )
