"""/api/v1: what operators do with jobs, chunks, workers, webhooks and projects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from apiflask import APIBlueprint
from flask import current_app, request
from pydantic import BaseModel, ValidationError

from farm.api.openapi import problems
from farm.api.operations import (
    Count,
    ForgiveIn,
    KeyList,
    NewKeyOut,
    Operations,
    PriorityIn,
    ProjectList,
    ReasonIn,
    ReplayIn,
    RequeueIn,
    ScheduleList,
    WebhookIn,
    WebhookList,
    WebhookOut,
    Why,
    WorkerKeyIn,
    WorkerStateIn,
)
from farm.api.schemas import JobOut, WorkerList
from farm.api.services import services
from farm.api.submission import named
from farm.errors import InfrastructureError, InputError
from farm.invalid import faults
from farm.jobs.budgets import ProjectChange, ProjectView
from farm.jobs.schedules import ScheduleView
from farm.provenance.consent import ConsentPolicy
from farm.recipe import preset, tuned

bp = APIBlueprint("operating", __name__, url_prefix="/api/v1", tag="Operations")
EXTENSION = "farm_operations"

M = TypeVar("M", bound=BaseModel)


def operations() -> Operations:
    """Of the application that handles this request."""
    found = cast(Operations | None, current_app.extensions[EXTENSION])
    if found is None:
        raise InfrastructureError("This API has no operations.", where="api", do="Start it with `python -m farm.api`.")
    return found


def body(model: type[M]) -> M:
    """The request's JSON body, "" standing for {}. InputError says which field is wrong."""
    return _told(lambda: model.model_validate_json(request.get_data() or b"{}"))


def checked(model: type[M], fields: Mapping[str, Any]) -> M:
    """What a page's form says. InputError says which field is wrong."""
    return _told(lambda: model.model_validate(fields))


def _told(read: Callable[[], M]) -> M:
    try:
        return read()
    except ValidationError as error:
        wrong = faults(error)[0]
        raise InputError(f"{wrong.why}.", where=wrong.field or "body", do="See /api/v1/openapi.json.") from None


@bp.post("/jobs/<job_id>/requeue")
@bp.output(JobOut)
@bp.doc(
    summary="Do work of a job again: what failed, one chunk, or all of it; or an ended job with another recipe",
    operation_id="requeue_job",
    responses=problems(403, 404, 409, 422, 503),
)
def requeue(job_id: str) -> JobOut:
    asked, found = body(RequeueIn), services()
    if asked.recipe is None:
        operations().requeue(job_id, asked.what, asked.reason)
    else:
        recipe = named(lambda: tuned(preset(str(asked.recipe)), asked.settings))
        named(lambda: found.check_recipe(recipe))
        operations().rerender(
            job_id,
            recipe,
            asked.reason,
            permits=found.permits,
            policy=ConsentPolicy(found.settings.consent_policy),
        )
    return services().ledger.job(job_id)


@bp.post("/jobs/<job_id>/priority")
@bp.output(JobOut)
@bp.doc(summary="Change a job's priority, at once", responses=problems(404, 422, 503))
def set_priority(job_id: str) -> JobOut:
    operations().set_priority(job_id, body(PriorityIn).priority)
    return services().ledger.job(job_id)


@bp.post("/jobs/<job_id>/chunks/<int:position>/accept")
@bp.output(JobOut)
@bp.doc(
    summary="Let a failed chunk show the plate's own frames",
    description="The reason is kept with the job. Only a failed chunk can be accepted.",
    responses=problems(404, 409, 422, 503),
)
def accept_as_is(job_id: str, position: int) -> JobOut:
    operations().accept_as_is(job_id, position, body(ReasonIn).reason)
    return services().ledger.job(job_id)


@bp.get("/jobs/<job_id>/why")
@bp.output(Why)
@bp.doc(summary="Why a job is where it is, in one sentence", responses=problems(404, 503))
def why_job(job_id: str) -> Why:
    return Why(why=operations().why_job(job_id))


@bp.get("/jobs/<job_id>/chunks/<int:position>/why")
@bp.output(Why)
@bp.doc(summary="Why a chunk is where it is", responses=problems(404, 503))
def why_chunk(job_id: str, position: int) -> Why:
    return Why(why=operations().why_chunk(job_id, position))


@bp.get("/workers/<worker_id>/why")
@bp.output(Why)
@bp.doc(summary="Why a worker does nothing, or what it does", responses=problems(404, 503))
def why_worker(worker_id: str) -> Why:
    return Why(why=operations().why_worker(worker_id))


@bp.post("/workers/<worker_id>/state")
@bp.output(WorkerList)
@bp.doc(
    summary="Ask a worker to be awake, asleep, offline, or to restart",
    description="It claims nothing more at once. With `now` it also hands back the tasks that it has.",
    responses=problems(404, 422, 503),
)
def request_state(worker_id: str) -> WorkerList:
    operations().request_state(worker_id, body(WorkerStateIn))
    return WorkerList(items=services().ledger.workers())


@bp.post("/workers/<worker_id>/forgive")
@bp.output(Count)
@bp.doc(summary="Let a worker take the tasks again for which it was blocked", responses=problems(422, 503))
def forgive(worker_id: str) -> Count:
    return Count(count=operations().forgive(worker_id, body(ForgiveIn).job_id))


@bp.get("/worker-keys")
@bp.output(KeyList)
@bp.doc(summary="Under which keys workers may register, without their secrets", responses=problems(503))
def list_worker_keys() -> KeyList:
    return KeyList(items=operations().worker_keys())


@bp.post("/worker-keys")
@bp.output(NewKeyOut, status_code=201)
@bp.doc(
    summary="Make a key for a worker or a pool",
    description="From the first key on, a worker without one is refused. The secret is shown this once.",
    responses=problems(409, 422, 503),
)
def add_worker_key() -> NewKeyOut:
    return operations().add_worker_key(body(WorkerKeyIn))


@bp.delete("/worker-keys/<name>")
@bp.output(Count)
@bp.doc(
    summary="Revoke a key", description="Its workers hand back what they have and end.", responses=problems(404, 503)
)
def revoke_worker_key(name: str) -> Count:
    return Count(count=operations().revoke_worker_key(name))


@bp.get("/schedules")
@bp.output(ScheduleList)
@bp.doc(summary="When workers and pools are awake", responses=problems(503))
def list_schedules() -> ScheduleList:
    return ScheduleList(items=operations().schedules())


@bp.post("/schedules")
@bp.output(ScheduleList)
@bp.doc(
    summary="Give a worker or a pool its hours",
    description="Looked at by the database's clock, in the time zone that is named. Outside them a worker ends its "
    "tasks and sleeps.",
    responses=problems(422, 503),
)
def set_schedule() -> ScheduleList:
    operations().set_schedule(body(ScheduleView))
    return ScheduleList(items=operations().schedules())


@bp.delete("/schedules/<target>")
@bp.output(Count)
@bp.doc(summary="Let a worker or a pool be awake at all hours again", responses=problems(404, 503))
def clear_schedule(target: str) -> Count:
    operations().clear_schedule(target)
    return Count(count=1)


@bp.get("/webhooks")
@bp.output(WebhookList)
@bp.doc(summary="Who is told of events", responses=problems(503))
def list_webhooks() -> WebhookList:
    return WebhookList(items=operations().webhooks())


@bp.post("/webhooks")
@bp.output(WebhookOut, status_code=201)
@bp.doc(summary="Tell a URL of a project's events from now on", responses=problems(422, 503))
def add_webhook() -> WebhookOut:
    made = operations().add_webhook(body(WebhookIn))
    return next(hook for hook in operations().webhooks() if hook.id == made)


@bp.delete("/webhooks/<webhook_id>")
@bp.output(Count)
@bp.doc(summary="Forget a webhook", responses=problems(404, 503))
def remove_webhook(webhook_id: str) -> Count:
    operations().remove_webhook(webhook_id)
    return Count(count=1)


@bp.post("/webhooks/<webhook_id>/replay")
@bp.output(Count)
@bp.doc(summary="Deliver again", description="All events above `after_event`.", responses=problems(422, 503))
def replay(webhook_id: str) -> Count:
    return Count(count=operations().replay(webhook_id, body(ReplayIn).after_event))


@bp.get("/projects")
@bp.output(ProjectList)
@bp.doc(summary="Shares, caps, budgets and use of all projects", responses=problems(503))
def list_projects() -> ProjectList:
    return ProjectList(items=operations().projects())


@bp.post("/projects/<name>")
@bp.output(ProjectView)
@bp.doc(summary="Change a project's weight, cap or budget", responses=problems(422, 503))
def change_project(name: str) -> ProjectView:
    return operations().change_project(name, body(ProjectChange))
