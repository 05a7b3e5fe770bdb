"""The end of an attempt that did its work: what it made is accepted, and what follows is opened, in one transaction."""

from __future__ import annotations

from sqlalchemy import bindparam, select, text, update
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Session

from farm.db.tables import Chunk, Deliverable, Job, Plate
from farm.errors import ConflictError
from farm.jobs import ledger, moves
from farm.jobs.advance import advance
from farm.jobs.plan import check_plan
from farm.jobs.report import Held, hold
from farm.jobs.states import AttemptState, JobState, TaskKind, TaskState
from farm.jobs.wire import CastResult, Lease, MergeResult, PlanResult, RenderResult, Result


def finish(session: Session, lease: Lease, result: Result) -> None:
    """Accept the result of an attempt.

    StaleLeaseError when the lease no longer holds: nothing is changed, and the caller must remove the objects that it
    stored. A repetition of a finish that was committed changes nothing and raises nothing. ConflictError when the
    result is not what the plan asks for (frames, deliverables, gaps): report it with `fail`.
    """
    if isinstance(result, RenderResult) and _quick_render(session, lease, result):
        return
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
    else:
        advance(session, held.job)


_LOCK_JOB = text("SELECT state, submitter_id, request FROM job WHERE id = :job FOR NO KEY UPDATE")

_QUICK = text("""
    WITH ended AS (
        UPDATE attempt SET state = 'done', ended_at = clock_timestamp(), frames_done = :frames,
               gpu_seconds = extract(epoch FROM clock_timestamp() - started_at),
               environment = environment || :environment
        WHERE lease_token = :token AND task_id = :task AND state = 'running'
          AND EXISTS (SELECT 1 FROM chunk c WHERE c.task_id = :task AND c.last - c.first = :frames)
          AND EXISTS (SELECT 1 FROM task t WHERE t.job_id = :job AND t.kind = 'render' AND t.id <> :task
                      AND t.state IN ('waiting', 'ready', 'running', 'backoff', 'paused'))
        RETURNING id, task_id, worker_id, number, gpu_seconds),
    moved AS (
        UPDATE task SET state = 'done', reason = 'Done.', done_at = clock_timestamp()
        FROM ended WHERE task.id = ended.task_id RETURNING task.position),
    filled AS (
        UPDATE chunk SET attempt_id = ended.id, outputs = :outputs, report = :report
        FROM ended WHERE chunk.task_id = ended.task_id RETURNING chunk.position),
    spent AS (
        UPDATE job SET gpu_seconds = job.gpu_seconds + ended.gpu_seconds
        FROM ended WHERE job.id = :job RETURNING job.id)
    SELECT ended.id, ended.worker_id, ended.number, ended.gpu_seconds, moved.position FROM ended, moved, filled, spent
    """).bindparams(*(bindparam(name, type_=JSONB) for name in ("environment", "outputs", "report")))


def _quick_render(session: Session, lease: Lease, result: RenderResult) -> bool:
    """Accept a chunk after which others are still to be rendered: all chunks but the last, so it has to be fast.

    Returns False without any change where something is out of the ordinary; the caller then goes the careful way.
    """
    job = session.execute(_LOCK_JOB, {"job": lease.job_id}).one_or_none()
    if job is None or job.state != JobState.RUNNING or set(job.request["deliverables"]) - set(result.outputs):
        return False
    row = session.execute(
        _QUICK,
        {
            "job": lease.job_id,
            "task": lease.task_id,
            "token": lease.token,
            "frames": result.frames,
            "outputs": {name: out.model_dump(mode="json") for name, out in result.outputs.items()},
            "report": result.report,
            "environment": result.environment,
        },
    ).one_or_none()
    if row is None:
        return False
    ids = {"job_id": lease.job_id, "task_id": lease.task_id, "attempt_id": row.id, "worker_id": row.worker_id}
    data = {"position": row.position, "kind": "render", "number": row.number}
    ledger.note(
        session,
        "attempt.state",
        **ids,
        before=AttemptState.RUNNING,
        after=AttemptState.DONE,
        reason="It finished.",
        data=data,
    )
    ledger.note(
        session,
        "render.state",
        **ids,
        before=TaskState.RUNNING,
        after=TaskState.DONE,
        reason="Done.",
        data={"position": row.position},
    )
    ledger.count(session, job.submitter_id, -1, row.gpu_seconds)
    return True


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
