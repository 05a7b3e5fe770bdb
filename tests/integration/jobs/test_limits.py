"""What a job and a project may use: retries of all tasks together, money; and who may take tasks of a newer wire."""

from __future__ import annotations

import pytest
from sqlalchemy import select, update

from farm.db.engine import Sessions, transact
from farm.db.tables import Lane, Project, Task
from farm.jobs import JobState, TaskKind, TaskState, budgets, fleet
from farm.jobs.budgets import ProjectChange
from farm.jobs.reconcile import BudgetKeeper, LaneCloser
from farm.jobs.views import job_view
from farm.jobs.why import why_job
from farm.jobs.wire import FACES_WIRE, MERGE_WIRE, WIRE
from tests.integration.jobs.hands import Hands


def test_a_job_fails_when_its_tasks_together_have_failed_too_often(sessions: Sessions) -> None:
    hands = Hands(sessions)
    job = hands.submit(max_attempts=9, max_retries=2)
    hands.plan(20)
    for number in range(2):
        assert hands.fail(hands.must_claim(), "unknown", f"It broke {number}.") is TaskState.READY
    hands.fail(hands.must_claim(), "interrupted")
    assert hands.state(job) is JobState.RUNNING, "what costs no try does not count"
    last = hands.must_claim()
    assert hands.fail(last, "unknown", "It broke again.") is TaskState.FAILED
    assert hands.state(job) is JobState.FAILED
    assert hands.reason(job) == (
        "The tasks of the job failed 3 times in all, and its limit is 2 retries. "
        f"The last was: Chunk {last.position}: It broke again."
    )
    with sessions() as session:
        assert hands.reason(job) in why_job(session, job)
        assert job_view(session, job).max_retries == 2


def test_a_requeue_gives_a_job_its_retries_back(sessions: Sessions) -> None:
    hands = Hands(sessions)
    job = hands.submit(max_attempts=9, max_retries=0)
    hands.plan(20)
    hands.fail(hands.must_claim(), "unknown")
    assert hands.state(job) is JobState.FAILED
    hands.command("requeue", job)
    hands.work(chunks=20)
    assert hands.state(job) is JobState.COMPLETED


def test_the_limit_is_not_in_what_workers_of_before_read(sessions: Sessions) -> None:
    """They refuse a request with a field that they do not know."""
    job = Hands(sessions).submit(max_retries=7)
    with sessions() as session:
        assert "max_retries" not in job_view(session, job).request


@pytest.fixture
def paid(sessions: Sessions) -> Hands:
    """A worker whose hours cost 3,600."""
    slot = Hands(sessions, "w1").slot
    report = fleet.WorkerReport(id="w1", name="w1", slots=(slot,), rate=3600.0)
    transact(sessions, lambda s: fleet.register(s, report))
    return Hands(sessions, "w1")


def used(sessions: Sessions) -> tuple[float, float]:
    with sessions() as session:
        project = session.scalars(select(Project)).one()
        return project.gpu_seconds, project.money


def test_what_renders_cost_is_counted_to_the_project(sessions: Sessions, paid: Hands) -> None:
    paid.submit()
    paid.plan(3)
    paid.go_on(paid.must_claim(TaskKind.RENDER))  # by the quick way
    seconds, money = used(sessions)
    assert money == pytest.approx(seconds)
    assert money > 0
    with sessions() as session:
        claim = session.scalars(select(Task).where(Task.state == TaskState.RUNNING)).one()
        assert claim.kind is TaskKind.RENDER
    transact(sessions, lambda s: fleet.hand_back(s, "w1", "It leaves."))  # by the careful way
    seconds, money = used(sessions)
    assert money == pytest.approx(seconds)


@pytest.mark.parametrize(("action", "claims"), [("warn", True), ("stop", False), ("cancel", False)])
def test_a_budget_in_money(sessions: Sessions, paid: Hands, action: str, claims: bool) -> None:
    job = paid.submit()
    change = ProjectChange.model_validate({"budget_money": 50, "budget_action": action})
    transact(sessions, lambda s: budgets.change_project(s, "default", change, actor="t"))
    keeper = BudgetKeeper(sessions)
    assert keeper.run_once() == 0
    with sessions.begin() as session:
        session.execute(update(Project).values(money=50, gpu_seconds=9))
    assert keeper.run_once() == (2 if action == "cancel" else 1)
    assert keeper.run_once() == 0
    assert (paid.claim() is not None) is claims
    assert (paid.state(job) is JobState.CANCELLED) is (action == "cancel")
    change = ProjectChange(budget_money=None)
    assert transact(sessions, lambda s: budgets.change_project(s, "default", change, actor="t")).budget_money is None
    assert keeper.run_once() == 1


def old(sessions: Sessions) -> Hands:
    return Hands(sessions, "old", wire=FACES_WIRE - 1)


def test_a_worker_of_an_older_wire_gets_what_it_can_read_and_nothing_else(sessions: Sessions) -> None:
    swap, plain = Hands(sessions).submit("swap"), Hands(sessions).submit()
    planned = [old(sessions).must_claim(TaskKind.PLAN) for _ in range(2)]
    for claim in planned:
        old(sessions).publish(claim, 0, 1, 2)
        old(sessions).finish(claim)
    assert {claim.job.id for claim in planned} == {swap, plain}
    first = old(sessions).must_claim()
    assert (first.job.id, first.kind) == (plain, TaskKind.RENDER)
    followed = old(sessions).go_on(first).claim
    assert followed is not None
    assert followed.job.id == plain
    old(sessions).finish(followed)
    assert old(sessions).work() == 1, "the last chunk of the plain job"
    assert Hands(sessions).work(mapping={"m1": "hero"}) == 6, "its merge, and all of the other one"
    assert Hands(sessions).state(plain) is JobState.COMPLETED
    assert Hands(sessions).state(swap) is JobState.COMPLETED


def test_what_is_left_of_a_job_asks_for_the_wire_in_which_its_cast_was_found(sessions: Sessions) -> None:
    """The job was planned by the version before, whose lanes ask for nothing."""
    hands = Hands(sessions)
    job = hands.submit("swap")
    hands.plan(3)
    with sessions.begin() as session:
        session.execute(update(Lane).values(wire=1))
    cast = old(sessions).must_claim(TaskKind.CAST)
    transact(sessions, lambda s: fleet.hand_back(s, "old", "It leaves."))
    cast = hands.must_claim(TaskKind.CAST)
    hands.finish(cast, mapping={"m1": "hero"})
    assert old(sessions).claim() is None
    assert hands.work() == 4
    assert hands.state(job) is JobState.COMPLETED


@pytest.mark.parametrize("when", ["before its last chunk", "when its merge is ready"])
@pytest.mark.parametrize("twin", [False, True])
def test_the_merge_of_a_job_of_the_version_before_asks_for_a_worker_of_today(
    sessions: Sessions, twin: bool, when: str
) -> None:
    """It was submitted by a program that knows of no other wire, before an upgrade or beside one."""
    hands = Hands(sessions)
    job = hands.submit(priority=60)
    hands.plan(1)
    with sessions.begin() as session:
        session.execute(update(Lane).values(wire=1))
    if twin:
        hands.submit(priority=40)
    if when == "before its last chunk":
        LaneCloser(sessions).run_once()
    hands.finish(hands.must_claim(TaskKind.RENDER))
    LaneCloser(sessions).run_once()
    assert old(sessions).claim(TaskKind.MERGE) is None
    claim = hands.must_claim(TaskKind.MERGE)
    assert claim.job.id == job
    hands.finish(claim)
    assert hands.state(job) is JobState.COMPLETED
    with sessions() as session:
        left = select(Task.id).join(Lane, Lane.id == Task.lane_id).where(Lane.kind == TaskKind.MERGE, Lane.wire == 1)
        assert session.scalars(left).all() == []


def test_wire_of_today_reads_everything() -> None:
    assert max(FACES_WIRE, MERGE_WIRE) <= WIRE
