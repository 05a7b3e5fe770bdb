"""The end of an attempt that did its work: what it made is accepted, and what follows is opened, in one transaction."""

from __future__ import annotations

from sqlalchemy import exists, select, update
from sqlalchemy.orm import Session

from farm.db.tables import Chunk, Deliverable, Job, Plate, Task
from farm.errors import ConflictError
from farm.jobs import moves
from farm.jobs.advance import advance
from farm.jobs.plan import check_plan
from farm.jobs.report import Held, hold
from farm.jobs.states import OPEN_TASK_STATES, AttemptState, JobState, TaskKind, TaskState
from farm.jobs.wire import CastResult, Lease, MergeResult, PlanResult, RenderResult, Result


def finish(session: Session, lease: Lease, result: Result) -> None:
    """Accept the result of an attempt.

    StaleLeaseError when the lease no longer holds: nothing is changed, and the caller must remove the objects that it
    stored. A repetition of a finish that was committed changes nothing and raises nothing. ConflictError when the
    result is not what the plan asks for (frames, deliverables, gaps): report it with `fail`.
    """
    kind = TaskKind(result.kind)
    held = hold(session, lease, kind, ended=(AttemptState.DONE,))
    if held.again:
        return
    match result:
        case PlanResult():
            _plan(session, held, result)
        case CastResult():
            _cast(held, result)
        case RenderResult():
            _render(session, held, result)
        case MergeResult():
            _merge(session, held, result)
    moves.end_attempt(session, held.attempt, held.task, held.job, AttemptState.DONE, "It finished.")
    moves.move_task(session, held.task, TaskState.DONE, "Done.", attempt=held.attempt)
    if kind is TaskKind.MERGE:
        _complete(session, held.job)
    elif kind is not TaskKind.RENDER or not _more_to_render(session, held.job):
        advance(session, held.job)


def _more_to_render(session: Session, job: Job) -> bool:
    """Whether nothing can follow yet, which is the case for every chunk but the last and so is worth a quick look."""
    if job.state is not JobState.RUNNING:
        return False
    session.flush()
    open_render = exists().where(Task.job_id == job.id, Task.kind == TaskKind.RENDER, Task.state.in_(OPEN_TASK_STATES))
    return bool(session.scalar(select(open_render)))


def _plan(session: Session, held: Held, result: PlanResult) -> None:
    check_plan(session, held.job, result.chunks, result.frames)
    frames = session.scalar(select(Plate.frames).where(Plate.job_id == held.job.id))
    if frames != result.frames:
        raise ConflictError(
            f"The plan is over {result.frames} frames, but the timeline has {frames}.", where=f"job {held.job.id}"
        )


def _cast(held: Held, result: CastResult) -> None:
    job = held.job
    job.cast_key, job.cast_members = result.cast_key, [dict(m) for m in result.members]
    if job.mapping is None and result.mapping is not None:
        job.mapping, job.mapping_by = result.mapping, "farm"


def _render(session: Session, held: Held, result: RenderResult) -> None:
    chunk = session.scalars(select(Chunk).where(Chunk.task_id == held.task.id)).one()
    where = f"job {held.job.id} chunk {chunk.position}"
    if result.frames != chunk.last - chunk.first:
        raise ConflictError(
            f"The chunk has {chunk.last - chunk.first} frames by the plan, {result.frames} were rendered.", where=where
        )
    missing = set(held.job.request["deliverables"]) - set(result.outputs)
    if missing:
        raise ConflictError(f"There is no output for {', '.join(sorted(missing))}.", where=where)
    chunk.attempt_id = held.attempt.id
    chunk.outputs = {name: out.model_dump(mode="json") for name, out in result.outputs.items()}
    chunk.report = result.report
    held.attempt.frames_done = result.frames
    held.attempt.environment = held.attempt.environment | result.environment


def _merge(session: Session, held: Held, result: MergeResult) -> None:
    if held.job.state is JobState.CANCELLING:
        return  # a cancelled job has no deliverable; its objects go with the job's
    wanted = set(held.job.request["deliverables"])
    if set(result.deliverables) != wanted:
        raise ConflictError(
            f"The job is for {', '.join(sorted(wanted))}; made was {', '.join(sorted(result.deliverables))}.",
            where=f"job {held.job.id}",
        )
    held.attempt.environment = held.attempt.environment | result.environment
    session.execute(
        update(Deliverable).where(Deliverable.job_id == held.job.id, Deliverable.current).values(current=False)
    )
    for name, out in result.deliverables.items():
        session.add(
            Deliverable(
                job_id=held.job.id,
                attempt_id=held.attempt.id,
                name=name,
                object_key=out.key,
                size=out.size,
                sha256=out.sha256,
                facts=out.facts,
            )
        )


def _complete(session: Session, job: Job) -> None:
    """The merge is done: say so, unless a person cancelled meanwhile (a cancelled job stays cancelled)."""
    if job.state is JobState.CANCELLING:
        moves.complete_stop(session, job)
        return
    if job.state in (JobState.QUEUED, JobState.RUNNING):
        moves.move_job(session, job, JobState.MERGING, "Every chunk is rendered.")
    moves.move_job(session, job, JobState.COMPLETED, "Every deliverable was made and verified.")
