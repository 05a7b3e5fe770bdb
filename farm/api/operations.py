"""What an operator does, as use cases of the API: commands on jobs and chunks, workers, webhooks, projects, and "why?".

Each call is one transaction. Errors are the farm's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import select
from sqlalchemy.orm import Session

from farm import jobs
from farm.api.schemas import MergeIn, SplitIn
from farm.db.engine import Sessions, transact
from farm.db.enums import RequestedState
from farm.db.tables import Job, Task, Webhook
from farm.errors import NotFoundError
from farm.jobs import budgets, fleet, schedules, webhooks, worker_keys
from farm.jobs.budgets import ProjectChange, ProjectView
from farm.jobs.policy import Policy
from farm.jobs.schedules import ScheduleView
from farm.jobs.states import TaskKind
from farm.jobs.why import why_job, why_task, why_worker
from farm.jobs.worker_keys import KeyView, NewKey
from farm.permits import Permits
from farm.provenance.consent import Consent, ConsentPolicy, admit
from farm.recipe import Recipe

OWN_KEY = "this-deployment"


class _In(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class RequeueIn(_In):
    """`what`: "failed" (what failed or was cancelled), "job" (all of it, from the plan on) or the number of a chunk.

    With `recipe` (and `settings`, as of a new job) instead: a job that has ended is rendered with that recipe, and what
    comes out the same is taken over.
    """

    what: Literal["failed", "job"] | int = "failed"
    recipe: str | None = None
    settings: dict[str, dict[str, Any]] = Field(default_factory=dict)
    reason: str = Field(default="", max_length=500)


class PriorityIn(_In):
    priority: int = Field(ge=0, le=100)


class ReasonIn(_In):
    reason: str = Field(min_length=1, max_length=500)


class WorkerStateIn(_In):
    """`now` also stops the tasks that the worker has: they are handed back, at no cost."""

    state: RequestedState
    now: bool = False
    reason: str = Field(default="", max_length=500)


class ForgiveIn(_In):
    job_id: str | None = Field(default=None, max_length=26)


class WebhookIn(_In):
    """`secret` signs each delivery; `kinds` are kinds of events ("job.state"), none: all."""

    project: str = Field(default="default", min_length=1, max_length=200)
    url: str = Field(max_length=2000)
    secret: str = Field(min_length=16, max_length=200)
    kinds: tuple[str, ...] = Field(default=(), max_length=32)


class ReplayIn(_In):
    after_event: int = Field(default=0, ge=0)


class WorkerKeyIn(_In):
    """`worker_id`: the one worker that may use the key; none: any worker of a pool."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")
    worker_id: str | None = Field(default=None, min_length=1, max_length=64)


BODIES: dict[str, type[BaseModel]] = {
    "/api/v1/jobs/{job_id}/requeue": RequeueIn,
    "/api/v1/jobs/{job_id}/priority": PriorityIn,
    "/api/v1/jobs/{job_id}/cast/merge": MergeIn,
    "/api/v1/jobs/{job_id}/cast/split": SplitIn,
    "/api/v1/jobs/{job_id}/chunks/{position}/accept": ReasonIn,
    "/api/v1/workers/{worker_id}/state": WorkerStateIn,
    "/api/v1/workers/{worker_id}/forgive": ForgiveIn,
    "/api/v1/webhooks": WebhookIn,
    "/api/v1/webhooks/{webhook_id}/replay": ReplayIn,
    "/api/v1/projects/{name}": ProjectChange,
    "/api/v1/worker-keys": WorkerKeyIn,
    "/api/v1/schedules": ScheduleView,
}
"""The body that each operation takes."""


class WebhookOut(BaseModel):
    """A webhook without its secret."""

    model_config = ConfigDict(from_attributes=True)

    id: str
    project_id: str
    url: str
    kinds: list[str]
    active: bool


class WebhookList(BaseModel):
    items: list[WebhookOut]


class ProjectList(BaseModel):
    items: list[ProjectView]


class NewKeyOut(BaseModel):
    """A key of a worker or a pool. `secret` is shown this once; give it to the worker as FARM_WORKER_SECRET."""

    name: str
    secret: str


class KeyList(BaseModel):
    items: list[KeyView]


class ScheduleList(BaseModel):
    items: list[ScheduleView]


class Count(BaseModel):
    count: int


class Why(BaseModel):
    """One sentence."""

    why: str


class Operations:
    """The use cases, on PostgreSQL."""

    def __init__(
        self, sessions: Sessions, policy: Policy, *, actor: str = "api", own_worker_secret: str | None = None
    ) -> None:
        self._sessions = sessions
        self._policy = policy
        self._actor = actor
        self._own_worker_secret = own_worker_secret

    def requeue(self, job_id: str, what: Literal["failed", "job"] | int, reason: str) -> None:
        again = partial(jobs.requeue, job_id=job_id, actor=self._actor, what=what, reason=reason or "Requeued.")
        transact(self._sessions, again)

    def rerender(
        self,
        job_id: str,
        recipe: Recipe,
        reason: str,
        *,
        permits: Permits,
        policy: ConsentPolicy,
    ) -> None:
        """Give an ended job another recipe, under the consent that it has. PolicyError where that is not enough."""

        def work(session: Session) -> None:
            job = session.get(Job, job_id)
            if job is None:
                raise NotFoundError("There is no such job.", where=f"job {job_id}", do="List the jobs: farm jobs.")
            admit(Consent.model_validate(job.consent or {}), policy, changes_faces=recipe.changes_faces)
            permit = permits.for_job(job, recipe)
            jobs.rerender(session, job_id, recipe, permit=permit, actor=self._actor, reason=reason)

        transact(self._sessions, work)

    def accept_as_is(self, job_id: str, position: int, reason: str) -> None:
        accept = partial(jobs.accept_as_is, job_id=job_id, position=position, actor=self._actor, reason=reason)
        transact(self._sessions, accept)

    def set_priority(self, job_id: str, priority: int) -> None:
        transact(self._sessions, partial(jobs.set_priority, job_id=job_id, priority=priority, actor=self._actor))

    def why_job(self, job_id: str) -> str:
        return transact(self._sessions, partial(why_job, job_id=job_id, policy=self._policy))

    def why_chunk(self, job_id: str, position: int) -> str:
        """Why a chunk is where it is. NotFoundError when the job has no such chunk."""

        def ask(session: Session) -> str:
            task = session.scalar(
                select(Task).where(Task.job_id == job_id, Task.kind == TaskKind.RENDER, Task.position == position)
            )
            if task is None:
                raise NotFoundError(f"There is no chunk {position}.", where=f"job {job_id}", do="List its chunks.")
            return why_task(session, task, self._policy)

        return transact(self._sessions, ask)

    def why_worker(self, worker_id: str) -> str:
        return transact(self._sessions, partial(why_worker, worker_id=worker_id, policy=self._policy))

    def request_state(self, worker_id: str, wanted: WorkerStateIn) -> None:
        ask = partial(
            fleet.request_state,
            worker_id=worker_id,
            wanted=wanted.state,
            after_task=not wanted.now,
            actor=self._actor,
            reason=wanted.reason,
        )
        transact(self._sessions, ask)

    def forgive(self, worker_id: str, job_id: str | None) -> int:
        return transact(
            self._sessions, partial(fleet.lift_blocks, worker_id=worker_id, job_id=job_id, actor=self._actor)
        )

    def worker_keys(self) -> list[KeyView]:
        return transact(self._sessions, worker_keys.keys)

    def add_worker_key(self, asked: WorkerKeyIn) -> NewKeyOut:
        """Make a key; the secret that this deployment gives its own workers becomes one too, so that they may stay."""

        def add(session: Session) -> NewKey:
            if self._own_worker_secret is not None:
                worker_keys.ensure_key(session, OWN_KEY, self._own_worker_secret, actor=self._actor)
            return worker_keys.add_key(session, asked.name, worker_id=asked.worker_id, actor=self._actor)

        made = transact(self._sessions, add)
        return NewKeyOut(name=made.name, secret=made.secret)

    def revoke_worker_key(self, name: str) -> int:
        return transact(self._sessions, partial(worker_keys.revoke_key, name=name, actor=self._actor))

    def schedules(self) -> list[ScheduleView]:
        return transact(self._sessions, schedules.schedules)

    def set_schedule(self, wanted: ScheduleView) -> None:
        transact(self._sessions, partial(schedules.set_schedule, wanted=wanted, actor=self._actor))

    def clear_schedule(self, target: str) -> None:
        transact(self._sessions, partial(schedules.clear_schedule, target=target, actor=self._actor))

    def webhooks(self) -> list[WebhookOut]:
        def read(session: Session) -> Sequence[Webhook]:
            return session.scalars(select(Webhook).order_by(Webhook.id)).all()

        return [WebhookOut.model_validate(row) for row in transact(self._sessions, read)]

    def add_webhook(self, asked: WebhookIn) -> str:
        add = partial(
            webhooks.add_webhook, project=asked.project, url=asked.url, secret=asked.secret, kinds=asked.kinds
        )
        return transact(self._sessions, add)

    def remove_webhook(self, webhook_id: str) -> None:
        transact(self._sessions, partial(webhooks.remove_webhook, webhook_id=webhook_id))

    def replay(self, webhook_id: str, after_event: int) -> int:
        return transact(self._sessions, partial(webhooks.replay, webhook_id=webhook_id, after_event=after_event))

    def projects(self) -> list[ProjectView]:
        return transact(self._sessions, budgets.projects)

    def change_project(self, name: str, change: ProjectChange) -> ProjectView:
        return transact(self._sessions, partial(budgets.change_project, name=name, change=change, actor=self._actor))
