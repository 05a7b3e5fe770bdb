"""What a claim carries: the job, and the parts of it that the task needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import exists, select
from sqlalchemy.orm import Session

from farm.db.tables import Chunk, Task
from farm.jobs.policy import Policy
from farm.jobs.request import JobRequest
from farm.jobs.states import TaskKind, TaskState
from farm.jobs.wire import WIRE, ChunkDone, ChunkTask, Claim, JobSpec, Lease, Slot


def load_claim(
    chunks: Callable[[str], Sequence[Chunk]],
    slot: Slot,
    policy: Policy,
    attempt_id: str,
    token: str,
    taken: dict[str, Any],
    work: dict[str, Any],
) -> Claim:
    """The claim for a task that was just taken.

    Parameters
    ----------
    chunks: reads those of a job, in order; asked for a cast or a merge only.
    taken: the row of `farm_take_2`: task, job, kind, place, number, shrunk, until, beat.
    work: the document of `farm_work_1`: the job's request and what is known of its plate and chunk.
    """
    kind, job_id, beat = TaskKind(taken["kind"]), taken["job"], float(taken["beat"])
    lease = Lease(
        token=token,
        job_id=job_id,
        task_id=taken["task"],
        attempt_id=attempt_id,
        until=taken["until"],
        seconds=max(policy.lease_seconds, 4 * beat),
        heartbeat_seconds=beat,
    )
    return Claim(
        wire=min(WIRE, slot.wire),
        lease=lease,
        kind=kind,
        position=taken["place"],
        number=taken["number"],
        shrunk=taken["shrunk"],
        job=_spec(job_id, JobRequest.model_validate(work["request"]), work),
        facts=work["facts"],
        frames=work["frames"],
        timeline_key=work["timeline_key"],
        cast_key=work["cast_key"],
        mapping=work["mapping"],
        chunk=chunk_task(work["chunk"]) if kind is TaskKind.RENDER else None,
        chunks=tuple(chunk_task(_row(c)) for c in chunks(job_id)) if kind is TaskKind.CAST else (),
        done=tuple(_chunk_done(c) for c in chunks(job_id)) if kind is TaskKind.MERGE else (),
        plan_by_decode=work["by_decode"],
        plan_finished=work["planned"],
    )


def plan_finished(session: Session, job_id: str) -> bool:
    done = exists().where(Task.job_id == job_id, Task.kind == TaskKind.PLAN, Task.state == TaskState.DONE)
    return bool(session.scalar(select(done)))


def _spec(job_id: str, request: JobRequest, work: dict[str, Any]) -> JobSpec:
    return JobSpec(
        id=job_id,
        project=work["project"],
        recipe=request.recipe,
        deliverables=request.deliverables,
        options=request.options,
        chunk_seconds=request.chunk_seconds,
        plate=request.plate,
        identities=request.identities,
        mapping_request=request.mapping,
        needs_cast=work["needs_cast"],
        consent=work["consent"],
        permit=work["permit"],
    )


def chunks_of(session: Session, job_id: str) -> list[Chunk]:
    """The chunks of a job that are known, in order."""
    return list(session.scalars(select(Chunk).where(Chunk.job_id == job_id).order_by(Chunk.position)))


def chunk_task(chunk: dict[str, Any]) -> ChunkTask:
    """A chunk for a renderer, from its row."""
    return ChunkTask.model_validate({name: chunk[name] for name in ChunkTask.model_fields})


def _row(chunk: Chunk) -> dict[str, Any]:
    return {name: getattr(chunk, name) for name in ChunkDone.model_fields}


def _chunk_done(chunk: Chunk) -> ChunkDone:
    return ChunkDone.model_validate(_row(chunk))
