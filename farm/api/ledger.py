"""The ledger of jobs as the API sees it, on PostgreSQL: transactions around `farm.jobs`, views as wire documents."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from farm import jobs
from farm.api.schemas import (
    AttemptOut,
    BatchOut,
    ChunkOut,
    DeliverableOut,
    EventOut,
    FarmOut,
    JobOut,
    JobPage,
    JobQuery,
    Progress,
    WarningOut,
    WorkerOut,
)
from farm.api.services import CastRecord, Placed, StoredFile
from farm.db.engine import Sessions, transact
from farm.errors import FarmError, InfrastructureError, InputError, NotFoundError
from farm.jobs import batches, glance, views
from farm.jobs.policy import Policy
from farm.jobs.progress import JobProgress
from farm.jobs.request import JobRequest
from farm.jobs.states import FINAL_JOB_STATES, JobState
from farm.jobs.views import JobView
from farm.jobs.why import why_job
from farm.media.deliverables import deliverable
from farm.media.facts import PlateFacts
from farm.merger.carry import losses

ACTOR = "api"

Command = Callable[..., JobState]
_COMMANDS: dict[str, Command] = {
    "cancel": jobs.cancel,
    "delete": jobs.delete,
    "pause": jobs.pause,
    "resume": jobs.resume,
}


class PostgresLedger:
    """Each call is one transaction. Errors are the farm's own."""

    def __init__(self, sessions: Sessions, policy: Policy) -> None:
        self._sessions = sessions
        self._policy = policy

    def submit(self, request: JobRequest, job_id: str, idempotency_key: str, facts: PlateFacts) -> Placed:
        submit = partial(jobs.submit, request=request, idempotency_key=idempotency_key, job_id=job_id, actor=ACTOR)
        done = transact(self._sessions, partial(submit, facts=facts.model_dump(mode="json")))
        return Placed(done.job_id, done.created)

    def exists(self, job_id: str) -> bool:
        try:
            transact(self._sessions, partial(views.job_view, job_id=job_id))
        except NotFoundError:
            return False
        except FarmError:
            return True
        return True

    def job(self, job_id: str) -> JobOut:
        def read(session: Session) -> JobOut:
            view = views.job_view(session, job_id)
            why = "" if view.final and view.delete_at is None else why_job(session, job_id, self._policy)
            return job_out(view, why=why, warnings=warnings_of(view))

        return transact(self._sessions, read)

    def is_final(self, job_id: str) -> bool:
        return transact(self._sessions, partial(views.job_view, job_id=job_id)).final

    def jobs(self, query: JobQuery) -> JobPage:
        found = transact(
            self._sessions,
            partial(
                views.list_jobs,
                states=_states(query.state),
                project=query.project,
                batch=query.batch,
                before=_cursor(query.cursor),
                limit=query.limit,
            ),
        )
        return JobPage(
            items=[job_out(view) for view in found.items],
            next=None if found.before is None else str(found.before),
        )

    def batch(self, name: str) -> BatchOut:
        found = transact(self._sessions, partial(batches.batch_view, name=name))
        return BatchOut.model_validate(found.model_dump() | {"progress": progress_out(found.progress)})

    def chunks(self, job_id: str) -> list[ChunkOut]:
        def read(session: Session) -> list[ChunkOut]:
            found = views.chunks(session, job_id)
            if not found:
                views.job_view(session, job_id)
            return [chunk_out(view) for view in found]

        return transact(self._sessions, read)

    def attempts(self, job_id: str, *, limit: int, attempt_id: str | None = None) -> list[AttemptOut]:
        def read(session: Session) -> list[AttemptOut]:
            found = views.attempts(session, job_id, limit=limit, attempt_id=attempt_id)
            if not found:
                views.job_view(session, job_id)
            return [AttemptOut.model_validate(view.model_dump() | {"worker": view.worker_id}) for view in found]

        return transact(self._sessions, read)

    def workers(self) -> list[WorkerOut]:
        return [worker_out(view) for view in transact(self._sessions, views.workers)]

    def events(self, job_id: str, after: int, limit: int) -> list[EventOut]:
        found = transact(self._sessions, partial(views.events_after, job_id=job_id, after=after, limit=limit))
        return [EventOut.model_validate(view.model_dump()) for view in found]

    def command(self, job_id: str, command: str, reason: str) -> None:
        told = {"reason": reason} if reason else {}
        transact(self._sessions, partial(_COMMANDS[command], job_id=job_id, actor=ACTOR, **told))

    def choose_mapping(self, job_id: str, mapping: dict[str, Any]) -> None:
        transact(self._sessions, partial(jobs.choose_mapping, job_id=job_id, mapping=mapping, actor=ACTOR))

    def cast(self, job_id: str) -> CastRecord:
        view = transact(self._sessions, partial(views.job_view, job_id=job_id))
        paused = view.state is JobState.PAUSED and view.cast_key is not None and not view.mapping
        return CastRecord(
            cast_key=view.cast_key,
            waits=paused or view.state is JobState.AWAITING_CAST,
            labels=tuple(identity["label"] for identity in view.request["identities"]),
            facts=view.plate_facts,
            mapping=view.mapping,
            members=tuple(member["id"] for member in view.cast_members or ()),
        )

    def replace_cast(self, job_id: str, before: str, after: str, members: list[dict[str, Any]], reason: str) -> None:
        change = partial(
            jobs.replace_cast,
            job_id=job_id,
            before=before,
            after=after,
            members=members,
            actor=ACTOR,
            reason=reason,
        )
        transact(self._sessions, change)

    def reports(self, job_id: str) -> list[dict[str, Any]]:
        return transact(self._sessions, partial(views.chunk_reports, job_id=job_id))

    def deliverable(self, job_id: str, name: str) -> StoredFile:
        view = transact(self._sessions, partial(views.job_view, job_id=job_id))
        for file in view.deliverables:
            if file.name == name:
                return StoredFile(file.object_key, file.size, file.sha256, filename_of(job_id, name, file.facts))
        raise NotFoundError(
            f"The job has no deliverable {name!r} yet; it is {view.state}.",
            where=f"job {job_id}",
            do="Wait until it is completed, or ask for one of its own deliverables.",
        )

    def open_counts(self) -> dict[str, int]:
        return {str(state): count for state, count in transact(self._sessions, views.open_counts).items()}

    def farm(self) -> FarmOut:
        def read(session: Session) -> FarmOut:
            tasks = glance.tasks_now(session)
            queue, oldest = glance.queue(session)
            word, why = glance.word(session, len(tasks), list(queue.values()), self._policy)
            return FarmOut.model_validate(
                {
                    "word": word,
                    "why": why,
                    "jobs": {str(state): count for state, count in views.open_counts(session).items()},
                    "queue": queue,
                    "oldest_seconds": oldest,
                    "tasks": tasks,
                    "failing": glance.failing_chunks(session),
                    "shares": glance.shares(session),
                }
            )

        return transact(self._sessions, read)

    def check(self) -> None:
        try:
            with self._sessions() as session:
                session.execute(text("SELECT 1 FROM job LIMIT 1"))
        except DBAPIError as error:
            raise InfrastructureError(
                "The database does not answer, or has no tables.",
                where="PostgreSQL",
                do="See that it runs and that its schema was made (farm doctor).",
            ) from error


def progress_out(at: JobProgress) -> Progress:
    return Progress(
        frames_done=at.frames_done,
        frames_total=at.frames_total,
        chunks_done=at.chunks_done,
        chunks_total=at.chunks_total or None,
        fps=at.fps,
        eta_seconds=at.eta_seconds,
        eta_error=at.eta_error,
    )


def job_out(view: JobView, *, why: str = "", warnings: tuple[WarningOut, ...] = ()) -> JobOut:
    """A job as it goes over the wire."""
    return JobOut(
        id=view.id,
        state=view.state,
        final=view.final,
        reason=view.reason,
        error_class=view.error_class,
        why=why,
        title=view.title,
        recipe=view.request["recipe"]["name"],
        deliverables_wanted=view.request["deliverables"],
        priority=view.priority,
        deadline=view.deadline,
        tags=view.tags,
        max_attempts=view.max_attempts,
        max_retries=view.max_retries,
        deleting=view.delete_at is not None,
        progress=progress_out(view.progress),
        project=view.project,
        owner=view.owner,
        batch=view.batch,
        gpu_seconds=view.gpu_seconds,
        cost=view.cost,
        warnings=list(warnings),
        plate=view.plate_facts,
        cast=view.cast_members,
        deliverables=[
            DeliverableOut(
                name=file.name,
                size=file.size,
                sha256=file.sha256,
                filename=filename_of(view.id, file.name, file.facts),
                url=f"/api/v1/jobs/{view.id}/deliverables/{file.name}",
                verified=verified(file.facts),
            )
            for file in view.deliverables
        ],
        created_at=view.created_at,
        started_at=view.started_at,
        finished_at=view.finished_at,
    )


def chunk_out(view: views.ChunkView) -> ChunkOut:
    done = view.last - view.first if view.state == "done" else view.frames_done
    return ChunkOut(
        index=view.position,
        first=view.first,
        last=view.last,
        seconds=view.seconds,
        state=view.state,
        reason=view.reason,
        attempts=view.attempts,
        frames_done=min(done, view.last - view.first),
        worker=view.worker_id,
    )


def worker_out(view: views.WorkerView) -> WorkerOut:
    """A worker as it goes over the wire."""
    return WorkerOut.model_validate(
        view.model_dump()
        | {
            "slots": len(view.slots),
            "devices": sorted({slot.device for slot in view.slots}),
            "blocks": [f"no {block.kind} of job {block.job_id}: {block.reason}" for block in view.blocks],
        }
    )


def warnings_of(view: JobView) -> tuple[WarningOut, ...]:
    """What a person should know of the plate, and what its deliverables cannot hold."""
    if view.plate_facts is None:
        return ()
    facts = PlateFacts.model_validate(view.plate_facts)
    found = [WarningOut(code=warning.code, text=warning.text) for warning in facts.warnings]
    loudness = view.request.get("options", {}).get("loudness")
    for name in view.request["deliverables"]:
        lost = losses(facts, deliverable(name), loudness=loudness)
        found += [WarningOut(code="loss", text=f"{name}: {words}") for words in lost]
    return tuple(found)


def filename_of(job_id: str, name: str, facts: dict[str, Any]) -> str:
    """Under which a deliverable is offered: made of the farm's own words, since people's names are not kept."""
    return f"{job_id}-{name}{facts.get('suffix') or deliverable(name).suffix}"


def verified(facts: dict[str, Any]) -> dict[str, Any]:
    """What reading a deliverable back found, in a few words each, from its merge report."""
    report = facts.get("verified")
    if not report:
        return {}
    tracks = report["tracks"]
    found = {
        "frames": f"{report['frames_out']} of {report['frames_in']} decoded",
        "worst_time_error": f"{report['worst_pts_error']} s",
        "seams": report["seams"],
        "other_tracks": f"{sum(track['same'] for track in tracks)} of {len(tracks)} have the plate's own packets",
        "encoder": facts["encoder"],
    }
    return found | ({"notes": " ".join(report["notes"])} if report["notes"] else {})


def _states(asked: str | None) -> list[JobState] | None:
    if asked is None:
        return None
    if asked in ("open", "final"):
        return [state for state in JobState if (state in FINAL_JOB_STATES) == (asked == "final")]
    try:
        return [JobState(asked)]
    except ValueError:
        raise InputError(
            f"There is no state {asked!r}.", where="state", do=f"Give open, final or one of: {', '.join(JobState)}."
        ) from None


def _cursor(given: str | None) -> int | None:
    if given is None:
        return None
    if not given.isdigit() or len(given) > 18:
        raise InputError("It is not a cursor.", where="cursor", do="Give the `next` of the page before.")
    return int(given)
