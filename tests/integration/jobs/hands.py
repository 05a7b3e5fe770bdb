"""Hands for the tests: requests as people send them, and a worker that does each task in one go, without pictures."""

from __future__ import annotations

from typing import Any

from sqlalchemy import func, select

from farm import jobs
from farm.db.engine import Sessions, transact
from farm.db.tables import Attempt, Job, Outbox, Task
from farm.errors import ErrorClass
from farm.jobs import ChunkPlan, Claim, JobRequest, JobState, Slot, TaskKind, TaskState
from farm.recipe import preset

SHA = "0" * 64


def request(recipe: str = "passthrough", **changes: Any) -> JobRequest:
    fields: dict[str, Any] = {
        "plate": {"object_key": "uploads/1", "sha256": SHA, "size": 10},
        "recipe": preset(recipe),
        "deliverables": ["review"],
        "chunk_seconds": 10,
    }
    if recipe != "passthrough":
        fields["identities"] = [{"label": "hero", "pictures": [{"object_key": "uploads/2", "sha256": SHA}]}]
        fields["mapping"] = {"mode": "lead"}
    return JobRequest.model_validate(fields | changes)


def chunk(position: int, frames: int = 10, segment: str = SHA) -> ChunkPlan:
    return ChunkPlan(
        position=position,
        first=position * frames,
        last=(position + 1) * frames,
        seconds=frames / 24,
        segment_key=f"segments/{position}",
        segment_sha256=segment,
        segment_size=100,
    )


def out(key: str) -> jobs.ObjectOut:
    return jobs.ObjectOut(key=key, sha256=SHA, size=1)


class Hands:
    """Submits, claims and finishes through the public functions, each call one committed transaction."""

    def __init__(self, sessions: Sessions, worker: str = "w1", **slot: Any) -> None:
        self.sessions = sessions
        self.slot = Slot(worker_id=worker, **slot)

    def submit(self, recipe: str = "passthrough", *, key: str | None = None, **changes: Any) -> str:
        wanted = request(recipe, **changes)
        return transact(self.sessions, lambda s: jobs.submit(s, wanted, idempotency_key=key)).job_id

    def claim(self, *kinds: TaskKind) -> Claim | None:
        slot = self.slot.model_copy(update={"kinds": kinds}) if kinds else self.slot
        return transact(self.sessions, lambda s: jobs.claim(s, slot))

    def must_claim(self, *kinds: TaskKind) -> Claim:
        claim = self.claim(*kinds)
        assert claim is not None
        return claim

    def beat(self, claim: Claim, frames: int = 0) -> jobs.HeartbeatAnswer:
        return jobs.heartbeat(self.sessions, claim.lease, jobs.Progress(frames_done=frames, note="render"))

    def plan(self, chunks: int = 3) -> None:
        claim = self.must_claim(TaskKind.PLAN)
        self.publish(claim, *range(chunks))
        self.finish(claim, chunks=chunks)

    def publish(self, claim: Claim, *positions: int) -> None:
        for position in positions:
            transact(self.sessions, lambda s, n=position: jobs.publish_chunk(s, claim.lease, chunk(n)))

    def finish(self, claim: Claim, *, chunks: int = 3, mapping: dict[str, Any] | None = None) -> None:
        """Finish any task with a result that fits the plan of `chunk`."""
        result: jobs.PlanResult | jobs.CastResult | jobs.RenderResult | jobs.MergeResult
        match claim.kind:
            case TaskKind.PLAN:
                result = jobs.PlanResult(chunks=chunks, frames=chunks * 10)
            case TaskKind.CAST:
                result = jobs.CastResult(cast_key="cast", members=({"id": "m1"},), mapping=mapping)
            case TaskKind.RENDER:
                result = jobs.RenderResult(frames=10, outputs={"review": out(f"chunk/{claim.lease.attempt_id}")})
            case TaskKind.MERGE:
                result = jobs.MergeResult(deliverables={"review": out(f"merge/{claim.lease.attempt_id}")})
        transact(self.sessions, lambda s: jobs.finish(s, claim.lease, result))

    def go_on(self, claim: Claim) -> jobs.Followed:
        """Finish a render and claim with the same commit, where that can be, as a worker does."""
        result = jobs.RenderResult(frames=10, outputs={"review": out(f"chunk/{claim.lease.attempt_id}")})
        followed = jobs.finish_at_once(self.sessions, claim.lease, result, self.slot)
        if followed is None:
            transact(self.sessions, lambda s: jobs.finish(s, claim.lease, result))
        return followed or jobs.Followed()

    def fail(self, claim: Claim, error_class: Any, message: str = "It broke.") -> TaskState:
        return transact(self.sessions, lambda s: jobs.fail(s, claim.lease, ErrorClass(error_class), message))

    def work(self, *, mapping: dict[str, Any] | None = None, chunks: int = 3) -> int:
        """Claim and finish until there is nothing to claim. Returns how many tasks were done."""
        done = 0
        while (claim := self.claim()) is not None:
            if claim.kind is TaskKind.PLAN:
                self.publish(claim, *range(chunks))
            self.finish(claim, chunks=chunks, mapping=mapping)
            done += 1
        return done

    def command(self, name: str, job_id: str, **arguments: Any) -> JobState:
        state: JobState = transact(self.sessions, lambda s: getattr(jobs, name)(s, job_id, actor="tester", **arguments))
        return state

    def state(self, job_id: str) -> JobState:
        with self.sessions() as session:
            return session.scalars(select(Job.state).where(Job.id == job_id)).one()

    def reason(self, job_id: str) -> str:
        with self.sessions() as session:
            return session.scalars(select(Job.reason).where(Job.id == job_id)).one()

    def tasks(self, job_id: str, kind: TaskKind) -> list[TaskState]:
        with self.sessions() as session:
            wanted = select(Task.state).where(Task.job_id == job_id, Task.kind == kind).order_by(Task.position)
            return list(session.scalars(wanted))

    def outbox(self) -> list[tuple[str, dict[str, Any]]]:
        with self.sessions() as session:
            return [(row.topic.value, row.payload) for row in session.scalars(select(Outbox).order_by(Outbox.id))]

    def let_lease_run_out(self, claim: Claim) -> None:
        with self.sessions.begin() as session:
            attempt = session.get_one(Attempt, claim.lease.attempt_id)
            attempt.lease_until = func.clock_timestamp() - func.make_interval(0, 0, 0, 0, 0, 0, 1)
