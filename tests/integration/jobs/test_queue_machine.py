"""A model of the queue against the database: who gets what, whatever happens to several jobs and workers in any order.

The model knows which tasks may be claimed by whom, and which of them has to be taken first: priority, then age.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import select

from farm import jobs
from farm.db.engine import Sessions, transact
from farm.db.tables import Attempt, Chunk
from farm.errors import ConflictError, StaleLeaseError
from farm.jobs import Claim, JobState, TaskKind
from farm.jobs.policy import DEFAULT
from farm.jobs.reconcile import LeaseExpirer
from farm.jobs.states import FINAL_JOB_STATES
from tests.integration.jobs.hands import Hands
from tests.integration.jobs.invariants import broken, broken_at_rest

CHUNKS = 3
WORKERS: dict[str, tuple[str, ...]] = {"plain": (), "tagged": ("a",), "other": ("a", "b")}
HALTED = (JobState.PAUSED, JobState.PAUSING, JobState.CANCELLED, JobState.CANCELLING)
Key = tuple[TaskKind, int]
PLAN, MERGE = (TaskKind.PLAN, 0), (TaskKind.MERGE, 0)


@dataclass
class ModelJob:
    """What the model knows of a job: its tasks that are ready, those that run under which claim, and the done ones."""

    id: str
    age: int
    priority: int
    tags: frozenset[str]
    cap: int | None
    halted: str = ""
    ready: set[Key] = field(default_factory=lambda: {PLAN})
    running: dict[Key, Claim] = field(default_factory=dict)
    done: set[Key] = field(default_factory=set)
    lost: dict[Key, int] = field(default_factory=dict)
    accepted: dict[int, str] = field(default_factory=dict)

    @property
    def ended(self) -> bool:
        return MERGE in self.done or self.halted == "cancelled"

    def gives(self, tags: tuple[str, ...]) -> bool:
        """Whether a slot with these tags may get one of its tasks now."""
        has_room = self.cap is None or len(self.running) < self.cap
        return not self.halted and bool(self.ready) and has_room and self.tags <= set(tags)

    def open_what_follows(self) -> None:
        renders = {(TaskKind.RENDER, n) for n in range(CHUNKS)}
        if renders <= self.done and MERGE not in self.done and MERGE not in self.running:
            self.ready.add(MERGE)

    def back(self, key: Key) -> None:
        """A task whose attempt ended without a result."""
        del self.running[key]
        if self.halted != "cancelled":
            self.ready.add(key)


class Queue(RuleBasedStateMachine):
    """Three workers with different tags, and jobs with different priorities, tags and caps."""

    sessions: Sessions

    @initialize()
    def begin(self) -> None:
        self.hands = {name: Hands(self.sessions, name, tags=tags) for name, tags in WORKERS.items()}
        self.own = self.hands["plain"]
        self.jobs: list[ModelJob] = []
        self.void: list[Claim] = []

    def running(self) -> list[tuple[ModelJob, Key]]:
        return [(job, key) for job in self.jobs for key in job.running]

    @precondition(lambda self: len(self.jobs) < 5)
    @rule(
        priority=st.sampled_from([10, 50, 50, 90]),
        tags=st.sampled_from([(), (), ("a",), ("b",)]),
        cap=st.sampled_from([None, None, 1, 2]),
    )
    def submit(self, priority: int, tags: tuple[str, ...], cap: int | None) -> None:
        made = self.own.submit(priority=priority, tags=list(tags), max_running=cap)
        self.jobs.append(ModelJob(made, len(self.jobs), priority, frozenset(tags), cap))

    @rule(worker=st.sampled_from(sorted(WORKERS)))
    def claim(self, worker: str) -> None:
        self.check_claim(worker, self.hands[worker].claim())

    def check_claim(self, worker: str, claim: Claim | None) -> None:
        givers = [job for job in self.jobs if job.gives(WORKERS[worker])]
        if claim is None:
            assert not givers, f"{worker} got nothing of {len(givers)} jobs"
            return
        job = next(job for job in self.jobs if job.id == claim.job.id)
        assert job in givers
        assert (job.priority, -job.age) == max((j.priority, -j.age) for j in givers), "another job comes first"
        key = (claim.kind, claim.position)
        assert key in job.ready
        job.ready.remove(key)
        job.running[key] = claim

    @precondition(lambda self: self.running())
    @rule(data=st.data(), worker=st.sampled_from(sorted(WORKERS)), twice=st.booleans(), on=st.booleans())
    def finish(self, data: st.DataObject, worker: str, twice: bool, on: bool) -> None:
        """`twice`: the answer was lost, the report is repeated. `on`: with the same commit the next one is claimed."""
        job, key = data.draw(st.sampled_from(self.running()))
        claim = job.running[key]
        hands = self.hands[worker]
        followed = None
        if key == PLAN:
            self.own.publish(claim, *range(CHUNKS))
            job.ready |= {(TaskKind.RENDER, n) for n in range(CHUNKS)} - job.done - set(job.running)
            if job.halted:
                job.ready = {k for k in job.ready if job.halted != "cancelled"}
        if key[0] is TaskKind.RENDER and on and not twice:
            followed = hands.go_on(claim)
        else:
            self.own.finish(claim, chunks=CHUNKS)
            if twice:
                self.own.finish(claim, chunks=CHUNKS)
        del job.running[key]
        if job.halted != "cancelled":
            job.done.add(key)
            if key[0] is TaskKind.RENDER:
                job.accepted[key[1]] = claim.lease.attempt_id
            job.open_what_follows()
        if followed is not None and followed.asked:
            self.check_claim(worker, followed.claim)

    @precondition(lambda self: self.running())
    @rule(data=st.data())
    def hand_back(self, data: st.DataObject) -> None:
        job, key = data.draw(st.sampled_from(self.running()))
        self.own.fail(job.running[key], "interrupted")
        self.void.append(job.running[key])
        job.back(key)

    @precondition(lambda self: self.running())
    @rule(data=st.data())
    def go_silent(self, data: st.DataObject) -> None:
        job, key = data.draw(st.sampled_from(self.running()))
        if job.lost.get(key, 0) + 1 >= DEFAULT.lost_limit:
            return  # the next one would end the job: the other model's business
        self.own.let_lease_run_out(job.running[key])
        assert LeaseExpirer(self.sessions).run_once() == 1
        self.void.append(job.running[key])
        if not job.halted:
            job.lost[key] = job.lost.get(key, 0) + 1
        job.back(key)

    @precondition(lambda self: self.void)
    @rule(data=st.data())
    def come_back_late(self, data: st.DataObject) -> None:
        """A superseded attempt can neither beat nor finish, and nothing that it says changes anything."""
        claim = data.draw(st.sampled_from(self.void))
        assert not self.own.beat(claim).alive
        for late in (self.own.finish, self.own.go_on) if claim.kind is TaskKind.RENDER else (self.own.finish,):
            with pytest.raises(StaleLeaseError):
                late(claim)

    @precondition(lambda self: self.jobs)
    @rule(data=st.data(), priority=st.sampled_from([10, 50, 90]))
    def hurry(self, data: st.DataObject, priority: int) -> None:
        job = data.draw(st.sampled_from(self.jobs))
        transact(self.sessions, lambda s: jobs.set_priority(s, job.id, priority, actor="tester"))
        job.priority = priority

    @precondition(lambda self: self.jobs)
    @rule(data=st.data(), command=st.sampled_from(["pause", "resume", "resume", "cancel"]))
    def command(self, data: st.DataObject, command: str) -> None:
        job = data.draw(st.sampled_from(self.jobs))
        try:
            self.own.command(command, job.id)
        except ConflictError:
            assert job.ended or job.halted == "cancelled" or (command == "resume" and job.halted != "paused")
            return
        job.halted = {"pause": "paused", "resume": "", "cancel": "cancelled"}[command]
        if command == "cancel":
            job.ready.clear()

    @precondition(lambda self: any(job.accepted for job in self.jobs))
    @rule(data=st.data())
    def requeue_chunk(self, data: st.DataObject) -> None:
        """One chunk again, of a running or a completed job: its result and its running merge count no more."""
        job = data.draw(st.sampled_from([job for job in self.jobs if job.accepted]))
        position = data.draw(st.sampled_from(sorted(job.accepted)))
        key = (TaskKind.RENDER, position)
        if job.halted or PLAN not in job.done:
            return
        self.own.command("requeue", job.id, what=position)
        for gone in {key, MERGE} & set(job.running):
            self.void.append(job.running.pop(gone))
        job.done -= {key, MERGE}
        job.ready = (job.ready - {MERGE}) | {key}
        del job.accepted[position]

    @invariant()
    def whole(self) -> None:
        if not hasattr(self, "jobs"):
            return
        assert broken(self.sessions) == []
        with self.sessions() as session:
            leases = dict(
                session.execute(select(Attempt.id, Attempt.job_id).where(Attempt.state == "running")).all()  # type: ignore[arg-type]
            )
            kept = {
                (row.job_id, row.position): row.attempt_id
                for row in session.execute(
                    select(Chunk.job_id, Chunk.position, Chunk.attempt_id).where(Chunk.attempt_id.is_not(None))
                )
            }
        assert leases == {c.lease.attempt_id: job.id for job in self.jobs for c in job.running.values()}
        alive = [job for job in self.jobs if job.halted != "cancelled"]
        for job in alive:
            assert {n: a for (owner, n), a in kept.items() if owner == job.id} == job.accepted
            assert (self.own.state(job.id) is JobState.COMPLETED) == job.ended

    def teardown(self) -> None:
        """Everything is let go, done, and clean."""
        if not getattr(self, "jobs", None):
            return
        for job in self.jobs:
            if job.halted == "paused":
                self.own.command("resume", job.id)
        for job, key in self.running():
            self.own.fail(job.running[key], "interrupted")
        self.hands["other"].work(chunks=CHUNKS)
        assert {self.own.state(job.id) for job in self.jobs} <= FINAL_JOB_STATES
        assert broken(self.sessions) + broken_at_rest(self.sessions) == []


@pytest.fixture
def queue(sessions: Sessions) -> type[Queue]:
    return type("QueueHere", (Queue,), {"sessions": sessions})


def _run(queue: type[Queue], examples: int, steps: int) -> None:
    limits = settings(
        max_examples=examples, stateful_step_count=steps, deadline=None, derandomize=True, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    run_state_machine_as_test(queue, settings=limits)


def test_the_queue_behaves_as_its_model(queue: type[Queue]) -> None:
    _run(queue, 6, 30)


@pytest.mark.slow
def test_the_queue_behaves_as_its_model_for_long(queue: type[Queue]) -> None:
    _run(queue, 200, 50)
