"""Errors by their class: who pays, who tries again, when it ends."""

from __future__ import annotations

from sqlalchemy import select

from farm.db.engine import Sessions, transact
from farm.db.tables import Attempt, Block, Task
from farm.jobs import JobState, Policy, Slot, TaskKind, TaskState, fleet
from tests.integration.jobs.hands import Hands


def workers(sessions: Sessions, *names: str) -> list[Hands]:
    """Registered, live workers with one slot each."""
    for name in names:
        report = fleet.WorkerReport(id=name, name=name, slots=(Slot(worker_id=name),))
        transact(sessions, lambda s, r=report: fleet.register(s, r))
    return [Hands(sessions, name) for name in names]


def test_input_errors_fail_the_job_at_once(sessions: Sessions) -> None:
    (hands,) = workers(sessions, "a")
    job = hands.submit()
    hands.plan(2)
    first, second = hands.must_claim(), hands.must_claim()
    assert hands.fail(first, "input", "Frame 7 cannot be decoded.") is TaskState.FAILED
    assert hands.state(job) is JobState.FAILED
    assert hands.reason(job) == "Chunk 0: Frame 7 cannot be decoded."
    assert hands.beat(second).reason == "superseded"
    assert hands.claim() is None


def test_memory_and_hand_backs_cost_no_try(sessions: Sessions) -> None:
    (hands,) = workers(sessions, "a")
    job = hands.submit(max_attempts=1)
    hands.plan(1)
    for shrunk in range(3):
        claim = hands.must_claim()
        assert claim.shrunk == shrunk
        assert hands.fail(claim, "out_of_memory") is TaskState.READY
    for _ in range(10):
        assert hands.fail(hands.must_claim(), "interrupted") is TaskState.READY
    hands.work()
    assert hands.state(job) is JobState.COMPLETED


def test_memory_that_never_suffices_ends(sessions: Sessions) -> None:
    (hands,) = workers(sessions, "a")
    job = hands.submit()
    hands.plan(1)
    for _ in range(Policy().shrink_limit):
        hands.fail(hands.must_claim(), "out_of_memory", "It needs 30 GB.")
    assert hands.state(job) is JobState.FAILED
    assert "ran out of memory 6 times" in hands.reason(job)


def test_another_worker_tries_first_and_three_decide(sessions: Sessions) -> None:
    a, b, c = workers(sessions, "a", "b", "c")
    job = a.submit(max_attempts=9)
    a.plan(20)
    bad = a.must_claim()
    assert a.fail(bad, "unknown") is TaskState.READY
    assert a.must_claim().position == 1, "what it failed is for the others"
    again = b.must_claim()
    assert again.lease.task_id == bad.lease.task_id
    b.fail(again, "unknown")
    again = c.must_claim()
    assert again.lease.task_id == bad.lease.task_id
    assert c.fail(again, "unknown", "Strange.") is TaskState.FAILED
    assert a.state(job) is JobState.RUNNING, "1 of 20 chunks is less than a tenth"
    with sessions() as session:
        assert session.get_one(Task, bad.lease.task_id).reason == "Strange. 3 different workers failed it."


def test_a_lone_worker_may_try_again(sessions: Sessions) -> None:
    (hands,) = workers(sessions, "a")
    job = hands.submit(max_attempts=2)
    hands.plan(1)
    assert hands.fail(hands.must_claim(), "unknown") is TaskState.READY
    assert hands.fail(hands.must_claim(), "unknown", "Odd.") is TaskState.FAILED
    assert hands.state(job) is JobState.FAILED
    assert hands.reason(job) == "1 of 1 chunk failed; the first is chunk 0: Odd. It failed 2 times."


def test_a_job_fails_early_when_a_tenth_of_it_has(sessions: Sessions) -> None:
    (hands,) = workers(sessions, "a")
    job = hands.submit(max_attempts=1)
    hands.plan(20)
    hands.fail(hands.must_claim(), "unknown")
    assert hands.state(job) is JobState.RUNNING
    hands.fail(hands.must_claim(), "unknown")
    assert hands.state(job) is JobState.FAILED


def test_a_bad_worker_is_blocked_and_may_be_forgiven(sessions: Sessions) -> None:
    bad, _good = workers(sessions, "bad", "good")
    job = bad.submit()
    bad.plan(40)
    for _ in range(3):
        bad.fail(bad.must_claim(), "unknown")
    assert bad.claim() is None
    with sessions() as session:
        block = session.scalars(select(Block)).one()
        assert (block.worker_id, block.job_id, block.kind) == ("bad", job, TaskKind.RENDER)
        assert block.reason == "It failed 3 render tasks of this job."
    other = bad.submit()
    assert bad.must_claim().job.id == other, "only this job is closed to it"
    assert transact(sessions, lambda s: fleet.lift_blocks(s, "bad", actor="op")) == 1
    assert bad.must_claim().job.id == job


def test_plan_errors_fail_the_job_when_no_try_is_left(sessions: Sessions) -> None:
    (hands,) = workers(sessions, "a")
    job = hands.submit(max_attempts=2)
    assert hands.fail(hands.must_claim(), "unknown") is TaskState.READY
    hands.fail(hands.must_claim(), "unknown", "The scan crashed.")
    assert (hands.state(job), hands.reason(job)) == (JobState.FAILED, "The plan: The scan crashed.")


def test_a_worker_that_leaves_or_starts_anew_hands_back(sessions: Sessions) -> None:
    a, b = workers(sessions, "a", "b")
    a.submit()
    a.plan(2)
    one, two = a.must_claim(), a.must_claim()
    assert transact(sessions, lambda s: fleet.leave(s, "a", "Its machine is taken away.")) == 2
    assert not a.beat(one).alive
    assert a.claim() is None, "it is offline"
    assert {b.must_claim().position, b.must_claim().position} == {one.position, two.position}
    workers(sessions, "b")
    assert len(workers(sessions, "a")) == 1
    assert a.must_claim().position in (0, 1)
    with sessions() as session:
        assert set(session.scalars(select(Task.lost))) == {0}
        assert set(session.scalars(select(Attempt.state))) == {"done", "interrupted", "running"}


def test_drain_stops_claims_and_on_demand_the_tasks(sessions: Sessions) -> None:
    (hands,) = workers(sessions, "a")
    hands.submit()
    hands.plan(2)
    claim = hands.must_claim()
    ask = fleet.RequestedState.ASLEEP
    transact(sessions, lambda s: fleet.request_state(s, "a", ask, actor="op"))
    assert hands.claim() is None
    assert hands.beat(claim).alive
    transact(sessions, lambda s: fleet.request_state(s, "a", ask, after_task=False, actor="op"))
    assert hands.beat(claim).reason == "draining"
    assert transact(sessions, lambda s: fleet.beat(s, "a")) == fleet.Wish(ask, after_task=False)
    transact(sessions, lambda s: fleet.request_state(s, "a", fleet.RequestedState.AWAKE, actor="op"))
    assert hands.claim() is not None
