"""Accepting a job: once for each idempotency key, whole or not at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from farm.db.ids import new_id
from farm.db.tables import Batch, Dependency, IdentityPicture, IdentityRow, Job, Plate, Task
from farm.errors import ConflictError, NotFoundError
from farm.jobs import lanes, ledger, moves
from farm.jobs.request import IdentityRef, JobRequest
from farm.jobs.states import JobState, TaskKind, TaskState


@dataclass(frozen=True, slots=True)
class Submitted:
    """`created` is False when the idempotency key was used before for the same request: `job_id` is that job."""

    job_id: str
    created: bool


def submit(
    session: Session,
    request: JobRequest,
    *,
    idempotency_key: str | None = None,
    job_id: str | None = None,
    actor: str = "",
    facts: dict[str, Any] | None = None,
) -> Submitted:
    """Accept a job and make its plan task claimable, in one transaction.

    `job_id`: the id under which the plate was stored (`farm.db.ids.new_id()`); a fresh one by default. `facts` is
    what a probe of the plate found, PlateFacts as JSON; None where nobody looked at it yet. The same key
    with the same request in the same project gives the same job, also when two submit at once; with another request it
    raises ConflictError. NotFoundError when a needed job does not exist, ConflictError when it can never complete.
    """
    project, submitter = lanes.people(session, request.project, request.owner)
    digest = request.digest()
    needed = _needed(session, request)
    state, reason = (JobState.WAITING, "It waits for other jobs.") if needed else (JobState.QUEUED, "Submitted.")
    row = session.execute(
        insert(Job)
        .values(
            id=job_id or new_id(),
            project_id=project,
            submitter_id=submitter,
            batch_id=_batch_id(session, project, request.batch),
            state=state,
            reason=reason,
            title=request.title,
            idempotency_key=idempotency_key,
            request_digest=digest,
            request=request.model_dump(mode="json"),
            needs_cast=request.needs_cast,
            priority=request.priority,
            tags=list(request.tags),
            chunk_seconds=request.chunk_seconds,
            max_running=request.max_running,
            max_attempts=request.max_attempts,
            max_retries=request.max_retries,
            deadline=request.deadline,
            permit=request.permit,
            consent=request.consent,
        )
        .on_conflict_do_nothing(
            index_elements=[Job.project_id, Job.idempotency_key], index_where=Job.idempotency_key.is_not(None)
        )
        .returning(Job.id, Job.seq)
    ).one_or_none()
    if row is None:
        return _submitted_before(session, project, idempotency_key, digest)
    _add_parts(session, row.id, request, facts)
    _add_tasks(session, row.id, row.seq, submitter, request, ready=not needed)
    ledger.note(session, "job.state", job_id=row.id, after=state, actor=actor or request.owner, reason=reason)
    return Submitted(row.id, created=True)


def _submitted_before(session: Session, project: str, key: str | None, digest: str) -> Submitted:
    found = session.execute(
        select(Job.id, Job.request_digest).where(Job.project_id == project, Job.idempotency_key == key)
    ).one()
    if found.request_digest != digest:
        raise ConflictError(
            "The idempotency key was used for another request.",
            where=f"job {found.id}",
            do="Use a new key for a new request; repeat the same request for the same key.",
        )
    return Submitted(found.id, created=False)


def _batch_id(session: Session, project: str, name: str | None) -> str | None:
    if name is None:
        return None
    session.execute(insert(Batch).values(id=new_id(), project_id=project, name=name).on_conflict_do_nothing())
    return session.scalars(select(Batch.id).where(Batch.project_id == project, Batch.name == name)).one()


def _needed(session: Session, request: JobRequest) -> bool:
    """Whether a needed job has not ended yet. The needed jobs are locked, so that none ends unseen meanwhile."""
    waiting = False
    for need in sorted(request.needs, key=lambda n: n.job_id):
        state = session.scalar(select(Job.state).where(Job.id == need.job_id).with_for_update(key_share=True))
        if state is None:
            raise NotFoundError("The needed job does not exist.", where=f"needs {need.job_id}", do="Check its id.")
        if need.hard and state in (JobState.FAILED, JobState.CANCELLED):
            raise ConflictError(
                f"The needed job is {state}.", where=f"needs {need.job_id}", do="Requeue it first, or need another one."
            )
        waiting = waiting or state not in (JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED)
    return waiting


def _add_parts(session: Session, job_id: str, request: JobRequest, facts: dict[str, Any] | None) -> None:
    plate = request.plate.model_dump(include={"object_key", "uri", "sha256", "size"})
    session.execute(insert(Plate).values(job_id=job_id, facts=facts, **plate))
    for identity in request.identities:
        _add_identity(session, job_id, identity)
    if request.needs:
        session.execute(
            insert(Dependency), [{"job_id": job_id, "needs_id": n.job_id, "hard": n.hard} for n in request.needs]
        )


def _add_identity(session: Session, job_id: str, identity: IdentityRef) -> None:
    made = new_id()
    session.execute(insert(IdentityRow).values(id=made, job_id=job_id, label=identity.label, face=identity.face))
    pictures = [
        {
            "id": new_id(),
            "identity_id": made,
            "position": position,
            "object_key": picture.object_key,
            "uri": picture.uri,
            "sha256": picture.sha256,
        }
        for position, picture in enumerate(identity.pictures)
    ]
    session.execute(insert(IdentityPicture), pictures)


def _add_tasks(session: Session, job_id: str, seq: int, submitter: str, request: JobRequest, *, ready: bool) -> None:
    kinds = [TaskKind.PLAN, TaskKind.MERGE] + ([TaskKind.CAST] if request.needs_cast else [])
    found = lanes.lane_ids(session, submitter, kinds, request)
    why = "The plate is there."
    first = {"state": TaskState.READY, "ready_at": func.clock_timestamp(), "reason": why}
    later = {"state": TaskState.WAITING, "ready_at": None, "reason": ""}
    shared: dict[str, Any] = {"job_id": job_id, "priority": request.priority, "job_seq": seq, "due": request.deadline}
    tasks = [
        {"id": new_id(), "kind": kind, "lane_id": found[kind], **shared}
        | (first if ready and kind is TaskKind.PLAN else later)
        for kind in kinds
    ]
    session.execute(insert(Task).values(tasks))
    if ready:
        moves.tell_ready(session, job_id, tasks[0]["id"], found[TaskKind.PLAN], why)
