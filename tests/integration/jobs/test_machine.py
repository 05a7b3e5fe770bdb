"""A model of the whole flow against the database: whatever people, workers and silence do, in any order."""

from __future__ import annotations

from contextlib import suppress

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

from farm.db.engine import Sessions
from farm.errors import ConflictError, NotFoundError, StaleLeaseError
from farm.jobs import Claim, JobState, TaskKind
from farm.jobs.reconcile import BackoffEnder, Finisher, LaneCloser, LeaseExpirer
from farm.jobs.states import FINAL_JOB_STATES, JOB_TRANSITIONS
from tests.integration.jobs.hands import Hands
from tests.integration.jobs.invariants import broken

CHUNKS = 2


class Farm(RuleBasedStateMachine):
    """One job, some workers. The model knows which leases are good and which chunks have a result."""

    sessions: Sessions

    @initialize(recipe=st.sampled_from(["passthrough", "swap"]), tries=st.integers(1, 3))
    def submit(self, recipe: str, tries: int) -> None:
        self.hands = Hands(self.sessions)
        self.job = self.hands.submit(recipe, max_attempts=tries)
        self.state = JobState.QUEUED
        self.good: list[Claim] = []
        self.void: list[Claim] = []
        self.rendered: set[int] = set()

    def look(self) -> JobState:
        """The job's state now; every change of it since the last look must be in the table."""
        before, self.state = self.state, self.hands.state(self.job)
        if before is not self.state:
            reachable = {before}
            while more := {b for a, b in JOB_TRANSITIONS if a in reachable} - reachable:
                reachable |= more
            assert self.state in reachable
        return self.state

    def drop_void(self) -> None:
        """Leases that the job's end or a requeue has made void, as their workers would hear."""
        for claim in list(self.good):
            if self.hands.beat(claim).reason == "superseded":
                self.good.remove(claim)
                self.void.append(claim)

    @rule()
    def claim(self) -> None:
        halted = self.look() not in (JobState.QUEUED, JobState.RUNNING, JobState.MERGING, JobState.AWAITING_CAST)
        claim = self.hands.claim()
        if claim is None:
            return
        assert not halted
        self.took(claim)

    def took(self, claim: Claim) -> None:
        """What must be true of every claim."""
        assert claim.lease.task_id not in {c.lease.task_id for c in self.good}
        if claim.kind is TaskKind.RENDER:
            assert claim.position not in self.rendered
            assert claim.mapping is not None or not claim.job.needs_cast
        if claim.kind is TaskKind.MERGE:
            assert self.rendered == set(range(CHUNKS))
            assert [d.position for d in claim.done] == list(range(CHUNKS))
        self.good.append(claim)

    @precondition(lambda self: self.good)
    @rule(data=st.data(), decided=st.booleans())
    def finish(self, data: st.DataObject, decided: bool) -> None:
        claim = data.draw(st.sampled_from(self.good))
        if claim.kind is TaskKind.PLAN:
            self.hands.publish(claim, *range(CHUNKS))
        self.hands.finish(claim, chunks=CHUNKS, mapping={"m1": "hero"} if decided else None)
        self.hands.finish(claim, chunks=CHUNKS, mapping=None)  # the answer was lost: said again
        self.good.remove(claim)
        if claim.kind is TaskKind.RENDER:
            self.rendered.add(claim.position)

    @precondition(lambda self: any(claim.kind is TaskKind.RENDER for claim in self.good))
    @rule(data=st.data())
    def finish_and_claim(self, data: st.DataObject) -> None:
        """What a worker does between two chunks."""
        renders = [claim for claim in self.good if claim.kind is TaskKind.RENDER]
        claim = data.draw(st.sampled_from(renders))
        followed = self.hands.go_on(claim)
        self.hands.finish(claim)  # the answer was lost: said again
        self.good.remove(claim)
        self.rendered.add(claim.position)
        if followed.claim is not None:
            assert self.look() is JobState.RUNNING
            self.took(followed.claim)

    @precondition(lambda self: self.good)
    @rule(data=st.data(), error=st.sampled_from(["unknown", "interrupted", "out_of_memory", "infrastructure", "input"]))
    def fail(self, data: st.DataObject, error: str) -> None:
        claim = data.draw(st.sampled_from(self.good))
        self.hands.fail(claim, error)
        self.good.remove(claim)
        self.void.append(claim)
        self.drop_void()

    @precondition(lambda self: self.good)
    @rule(data=st.data())
    def go_silent(self, data: st.DataObject) -> None:
        claim = data.draw(st.sampled_from(self.good))
        self.hands.let_lease_run_out(claim)
        assert LeaseExpirer(self.sessions).run_once() >= 1
        self.good.remove(claim)
        self.void.append(claim)
        self.drop_void()

    @precondition(lambda self: self.void)
    @rule(data=st.data())
    def come_back_late(self, data: st.DataObject) -> None:
        claim = data.draw(st.sampled_from(self.void))
        assert not self.hands.beat(claim).alive
        with pytest.raises(StaleLeaseError):
            self.hands.finish(claim, chunks=CHUNKS)

    @rule(
        command=st.sampled_from(["pause", "resume", "cancel", "requeue", "requeue"]),
        what=st.sampled_from(["failed", "job", 0]),
    )
    def command(self, command: str, what: str | int) -> None:
        before = self.look()
        arguments = {"what": what} if command == "requeue" else {}
        try:
            after = self.hands.command(command, self.job, **arguments)
        except (ConflictError, NotFoundError):  # not in this state; no chunk 0 yet
            assert self.look() is before
            return
        if command == "requeue":
            self.rendered -= {0} if what == 0 else set(range(CHUNKS)) if what == "job" else set()
        if command == "pause":
            assert after in (JobState.PAUSING, JobState.PAUSED)
        self.drop_void()

    @rule()
    def choose(self) -> None:
        waits = self.look() is JobState.AWAITING_CAST
        with suppress(ConflictError):
            self.hands.command("choose_mapping", self.job, mapping={"m1": "hero"})
            assert waits or self.state is JobState.PAUSED

    @rule()
    def reconcile(self) -> None:
        BackoffEnder(self.sessions).run_once()
        LaneCloser(self.sessions).run_once()
        assert Finisher(self.sessions).run_once() == 0, "a step was missed"

    @rule(data=st.data())
    def go_on(self, data: st.DataObject) -> None:
        """What happens most of the time: a claim, and its finish."""
        self.claim()
        if self.good:
            self.finish(data, decided=True)

    @rule(data=st.data())
    def go_on_again(self, data: st.DataObject) -> None:
        self.go_on(data)
        self.go_on(data)

    def teardown(self) -> None:
        if not hasattr(self, "job"):
            return
        with suppress(ConflictError):
            self.hands.command("cancel", self.job)
        for claim in self.good:
            with suppress(StaleLeaseError):
                self.hands.fail(claim, "interrupted")
        assert self.look() in FINAL_JOB_STATES

    @invariant()
    def whole(self) -> None:
        assert broken(self.sessions) == []
        if self.look() is JobState.COMPLETED:
            assert self.rendered == set(range(CHUNKS))
            assert not self.good
        if self.state in FINAL_JOB_STATES:
            assert self.hands.claim() is None


@pytest.fixture
def machine(sessions: Sessions) -> type[Farm]:
    return type("FarmHere", (Farm,), {"sessions": sessions})


def test_the_farm_behaves_as_its_model(machine: type[Farm]) -> None:
    limits = settings(
        max_examples=12,
        stateful_step_count=25,
        deadline=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(machine, settings=limits)
