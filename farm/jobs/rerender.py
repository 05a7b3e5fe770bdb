"""A finished job with another recipe: what comes out the same is kept, only what changes is rendered again."""

from __future__ import annotations

from typing import Any

from sqlalchemy import exists, select, text, update
from sqlalchemy.orm import Session

from farm.db.tables import Chunk, Event, Fingerprint, Job, Task
from farm.errors import RecipeError
from farm.jobs import ledger, moves
from farm.jobs.advance import advance, phase
from farm.jobs.commands import fresh_start, refused
from farm.jobs.payload import plan_finished
from farm.jobs.request import JobRequest
from farm.jobs.states import FINAL_JOB_STATES, JobState, TaskKind, TaskState
from farm.recipe import SWAP, Recipe

RETENTION = "job.retention"
"""Kind of the event that says that parts of a job were removed from the store."""


def rerender(
    session: Session, job_id: str, recipe: Recipe, *, permit: dict[str, Any] | None, actor: str, reason: str = ""
) -> JobState:
    """Give a job that has ended another recipe and open it again; its state afterwards.

    The plan stays where the new recipe needs the same frames, the cast where it puts faces in by the same models, the
    mapping in any case. Each chunk that would come out the same takes its earlier result over (`farm.jobs.reuse`).
    ConflictError for a job that has not ended. RecipeError where the recipe needs people whom the job does not have.

    permit: the leave to render the job with this recipe; the caller has checked the consent.
    """
    job = moves.lock_job(session, job_id)
    if job.state not in FINAL_JOB_STATES:
        raise refused(job, "given another recipe", "Cancel it first, or wait for its end.")
    if job.delete_at is not None:
        raise refused(job, "given another recipe", "It is being deleted; submit it anew.")
    request = JobRequest.model_validate(job.request)
    if recipe.puts_in_faces != request.needs_cast:
        raise RecipeError(
            f"The recipe {recipe.name!r} and the job's {request.recipe.name!r} do not both put in faces.",
            where=f"job {job.id}",
            do="Submit a new job with that recipe.",
        )
    why = reason or f"Requeued with the recipe {recipe.name}."
    plan_again = not _plan_stays(session, job, request.recipe, recipe)
    cast_again = recipe.puts_in_faces and (plan_again or _swappers(request.recipe) != _swappers(recipe))
    changed = request.model_copy(update={"recipe": recipe, "mapping": job.mapping or request.mapping})
    job.request, job.permit = changed.model_dump(mode="json"), permit
    _keep_results(session, job)
    if plan_again:  # the segments may be gone, or be of another size
        unplanned = update(Chunk).where(Chunk.job_id == job.id).values(planned=False)
        session.execute(unplanned.execution_options(synchronize_session=False))
    others = Task.kind.in_((TaskKind.RENDER, TaskKind.MERGE, *((TaskKind.CAST,) if cast_again else ())))
    fresh_start(session, job, TaskState.WAITING, actor, why, others)
    if cast_again:
        job.mapping = job.mapping_by = job.cast_key = job.cast_members = None
    if plan_again:
        fresh_start(session, job, moves.ready_state(job), actor, why, Task.kind == TaskKind.PLAN)
    ledger.note(session, "job.recipe", job_id=job.id, actor=actor, reason=why, data={"recipe": recipe.name})
    session.flush()
    moves.move_job(session, job, phase(session, job), why, actor=actor)
    advance(session, job)
    return job.state


def _plan_stays(session: Session, job: Job, before: Recipe, after: Recipe) -> bool:
    """Whether the segments are there, with all that the new recipe needs, and its pictures have the same size."""
    removed = exists().where(Event.job_id == job.id, Event.kind == RETENTION, Event.data["part"].astext == "working")
    return (
        plan_finished(session, job.id)
        and before.scale == after.scale
        and (before.changes_faces or not after.changes_faces)
        and not session.scalar(select(removed))
    )


def _swappers(recipe: Recipe) -> list[dict[str, Any]]:
    return [processor.model_dump(mode="json") for processor in recipe.processors if processor.kind == SWAP]


_KEEP = text("""
    UPDATE fingerprint f SET outputs = c.outputs, report = c.report
    FROM chunk c WHERE c.job_id = :job AND c.attempt_id = f.attempt_id AND f.job_id = :job""")


def _keep_results(session: Session, job: Job) -> None:
    """Take the accepted results away from the chunks, but keep those by which another attempt may know them."""
    session.flush()
    session.execute(_KEEP, {"job": job.id})
    kept = select(Fingerprint.attempt_id).where(Fingerprint.job_id == job.id, Fingerprint.outputs.is_not(None))
    moves.discard_results(session, job, Chunk.attempt_id.not_in(kept))
    session.execute(
        update(Chunk)
        .where(Chunk.job_id == job.id)
        .values(attempt_id=None, outputs=None, report=None, fresh=False)
        .execution_options(synchronize_session=False)
    )


_LET_GO = text("""
    WITH done AS (
        SELECT f.attempt_id FROM fingerprint f JOIN job j ON j.id = f.job_id
        WHERE f.outputs IS NOT NULL AND j.state IN ('completed', 'failed', 'cancelled')
          AND j.finished_at < clock_timestamp() - make_interval(secs => :grace)
        LIMIT :most FOR UPDATE OF f SKIP LOCKED),
    dropped AS (
        UPDATE fingerprint f SET outputs = NULL, report = NULL FROM done WHERE f.attempt_id = done.attempt_id),
    unwanted AS (
        UPDATE attempt a SET garbage = true FROM done
        WHERE a.id = done.attempt_id
          AND NOT EXISTS (SELECT 1 FROM chunk c WHERE c.job_id = a.job_id AND c.attempt_id = a.id))
    SELECT count(*) FROM done""")


def let_go(session: Session, *, grace: float, most: int) -> int:
    """Give up the results that were kept for jobs which ended more than `grace` seconds ago. Returns how many."""
    return int(session.scalar(_LET_GO, {"grace": grace, "most": most}) or 0)
