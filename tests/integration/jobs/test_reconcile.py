"""Each reconciler service repairs exactly what it is for, and two of them at once do no harm."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import func, select, update

from farm import jobs
from farm.db.base import seconds
from farm.db.engine import Sessions
from farm.db.tables import Attempt, Job, Lane, Outbox, Task, Worker
from farm.errors import StaleLeaseError
from farm.jobs import JobState, Policy, TaskKind, TaskState
from farm.jobs.reconcile import (
    BackoffEnder,
    DependencyReleaser,
    Finisher,
    Garbage,
    LaneCloser,
    LeaseExpirer,
    Message,
    OutboxDispatcher,
    StaleCleaner,
    Waker,
    WorkerReaper,
)
from tests.integration.jobs.hands import Hands


def back_date(sessions: Sessions, column: Any, by: float) -> None:
    """As if `by` seconds had gone by since then."""
    with sessions.begin() as session:
        session.execute(update(column.class_).values({column: func.clock_timestamp() - seconds(by)}))


def test_wake_ups_are_sent_once_each_and_alike_ones_together(sessions: Sessions) -> None:
    hands = Hands(sessions)
    hands.submit()
    hands.submit()
    hands.submit(tags=["gpu"])
    sent: list[Message] = []
    dispatcher = OutboxDispatcher(sessions, sent.append)
    assert dispatcher.run_once() == 3
    assert sorted((m.payload["kind"], tuple(m.payload["tags"]), m.payload["count"]) for m in sent) == [
        ("plan", (), 2),
        ("plan", ("gpu",), 1),
    ]
    assert dispatcher.run_once() == 0
    assert hands.outbox() == []


def test_what_cannot_be_sent_stays(sessions: Sessions) -> None:
    hands = Hands(sessions)
    hands.submit()

    def broken(_: Message) -> None:
        raise ConnectionError("the broker is away")

    assert OutboxDispatcher(sessions, broken).run_once() == 0
    sent: list[Message] = []
    assert OutboxDispatcher(sessions, sent.append).run_once() == 0, "not before its pause is over"
    back_date(sessions, Outbox.due_at, 1)
    assert OutboxDispatcher(sessions, sent.append).run_once() == 1
    assert len(sent) == 1


def test_a_rolled_back_change_sends_nothing(sessions: Sessions) -> None:
    hands = Hands(sessions)
    job = hands.submit()
    OutboxDispatcher(sessions, lambda _: None).run_once()
    with sessions() as session:
        jobs.cancel(session, job, actor="x")
        jobs.requeue(session, job, actor="x", what="job")
        session.rollback()
    with sessions.begin() as session:
        session.execute(update(Task).values(reason=""))
    assert hands.outbox() == []
    assert hands.state(job) is JobState.QUEUED


def test_a_lost_wake_up_is_repeated_until_somebody_claims(sessions: Sessions) -> None:
    hands = Hands(sessions)
    hands.submit()
    OutboxDispatcher(sessions, lambda _: None).run_once()  # and the message is lost
    assert Waker(sessions).run_once() == 0
    back_date(sessions, Lane.woken_at, 11)
    assert Waker(sessions).run_once() == 1
    assert Waker(sessions).run_once() == 0
    assert [payload["count"] for _, payload in hands.outbox()] == [1]
    hands.must_claim()
    back_date(sessions, Lane.woken_at, 11)
    assert Waker(sessions).run_once() == 0


def test_an_empty_lane_is_closed_and_opens_again(sessions: Sessions) -> None:
    hands = Hands(sessions)
    hands.submit()
    back_date(sessions, Lane.woken_at, 11)
    assert LaneCloser(sessions).run_once() == 1, "the merge's; the plan's has a task"
    assert hands.work() == 5, "work in a closed lane would be found by nobody"


def test_a_silent_worker_loses_its_task_to_another(sessions: Sessions) -> None:
    frozen, other = Hands(sessions, "frozen"), Hands(sessions, "other")
    job = frozen.submit()
    frozen.plan(1)
    old = frozen.must_claim()
    expirer = LeaseExpirer(sessions)
    assert expirer.run_once() == 0
    frozen.let_lease_run_out(old)
    assert frozen.beat(old).alive, "nobody has taken it yet, so a late heartbeat saves it"
    assert expirer.run_once() == 0
    frozen.let_lease_run_out(old)
    assert expirer.run_once() == 1
    new = other.must_claim()
    assert new.lease.task_id == old.lease.task_id
    with pytest.raises(StaleLeaseError):
        frozen.finish(old)
    other.finish(new)
    other.work()
    assert other.state(job) is JobState.COMPLETED


def test_alive_without_progress_is_stuck(sessions: Sessions) -> None:
    hands = Hands(sessions)
    hands.submit()
    hands.plan(1)
    claim = hands.must_claim()
    back_date(sessions, Attempt.progress_at, 1000)
    hands.beat(claim, 5)
    assert LeaseExpirer(sessions).run_once() == 0, "it got on with its work"
    back_date(sessions, Attempt.progress_at, 1000)
    hands.beat(claim, 5)
    assert LeaseExpirer(sessions).run_once() == 1


def test_a_chunk_that_kills_its_workers_is_poison(sessions: Sessions) -> None:
    hands = Hands(sessions)
    job = hands.submit()
    hands.plan(1)
    for _ in range(Policy().lost_limit):
        claim = hands.must_claim()
        hands.let_lease_run_out(claim)
        assert LeaseExpirer(sessions).run_once() == 1
    assert hands.claim() is None
    assert hands.state(job) is JobState.FAILED
    assert "died or went silent 3 times" in hands.reason(job)


@pytest.mark.parametrize(("command", "end"), [("cancel", JobState.CANCELLED), ("pause", JobState.PAUSED)])
def test_a_stop_does_not_wait_for_a_dead_worker(sessions: Sessions, command: str, end: JobState) -> None:
    hands = Hands(sessions)
    job = hands.submit()
    hands.plan(1)
    claim = hands.must_claim()
    hands.command(command, job)
    hands.let_lease_run_out(claim)
    assert not hands.beat(claim).alive
    assert LeaseExpirer(sessions).run_once() == 1, "a beat does not prolong the lease of what was told to stop"
    assert hands.state(job) is end


def test_backoff_ends(sessions: Sessions) -> None:
    hands = Hands(sessions)
    job = hands.submit()
    hands.plan(1)
    assert hands.fail(hands.must_claim(), "infrastructure", "The store is away.") is TaskState.BACKOFF
    assert hands.claim() is None
    assert BackoffEnder(sessions).run_once() == 0
    with sessions.begin() as session:
        session.execute(update(Task).where(Task.state == "backoff").values(not_before=func.clock_timestamp()))
    assert BackoffEnder(sessions).run_once() == 1
    hands.work()
    assert hands.state(job) is JobState.COMPLETED


def test_a_step_that_was_missed_is_made_up_for(sessions: Sessions) -> None:
    hands = Hands(sessions)
    job = hands.submit()
    hands.plan(1)
    hands.finish(hands.must_claim())
    with sessions.begin() as session:  # as if the merge had never been opened
        session.execute(update(Task).where(Task.kind == "merge").values(state="waiting"))
        session.execute(update(Job).values(state="running"))
    assert hands.claim() is None
    assert Finisher(sessions).run_once() == 1
    hands.work()
    assert hands.state(job) is JobState.COMPLETED


def test_needed_jobs_come_first(sessions: Sessions) -> None:
    hands = Hands(sessions)
    first = hands.submit()
    second = hands.submit(needs=[{"job_id": first}])
    soft = hands.submit(needs=[{"job_id": first, "hard": False}])
    assert hands.state(second) is JobState.WAITING
    assert DependencyReleaser(sessions).run_once() == 0
    assert hands.work() == 5
    assert DependencyReleaser(sessions).run_once() == 2
    hands.work()
    assert (hands.state(second), hands.state(soft)) == (JobState.COMPLETED, JobState.COMPLETED)


def test_a_needed_job_that_failed_fails_those_that_need_it(sessions: Sessions) -> None:
    hands = Hands(sessions)
    first = hands.submit()
    second, soft = hands.submit(needs=[{"job_id": first}]), hands.submit(needs=[{"job_id": first, "hard": False}])
    hands.command("cancel", first)
    assert DependencyReleaser(sessions).run_once() == 2
    assert (hands.state(second), hands.state(soft)) == (JobState.FAILED, JobState.QUEUED)
    assert hands.reason(second) == f"Job {first}, which it needs, is cancelled."
    assert hands.claim() is not None


def test_silent_workers_are_offline(sessions: Sessions) -> None:
    with sessions.begin() as session:
        session.add(Worker(id="w", name="w", state="awake"))
    assert WorkerReaper(sessions).run_once() == 0
    back_date(sessions, Worker.seen_at, 100)
    assert WorkerReaper(sessions).run_once() == 1
    assert WorkerReaper(sessions).run_once() == 0


def test_what_a_given_up_attempt_stored_is_removed_later(sessions: Sessions) -> None:
    hands = Hands(sessions)
    job = hands.submit()
    hands.plan(2)
    lost, good = hands.must_claim(), hands.must_claim()
    hands.fail(lost, "unknown")
    hands.finish(good)
    removed: list[Garbage] = []
    cleaner = StaleCleaner(sessions, removed.append)
    assert cleaner.run_once() == 0
    _end_long_ago(sessions)
    assert cleaner.run_once() == 1
    assert removed == [Garbage(job, TaskKind.RENDER, lost.position, lost.lease.attempt_id)]
    assert cleaner.run_once() == 0


def _end_long_ago(sessions: Sessions) -> None:
    with sessions.begin() as session:
        session.execute(
            update(Attempt).where(Attempt.ended_at.is_not(None)).values(ended_at=Attempt.ended_at - seconds(1000))
        )


def test_two_of_every_service_at_once(sessions: Sessions) -> None:
    hands = Hands(sessions)
    for _ in range(8):
        hands.submit()
        hands.plan(1)
        hands.let_lease_run_out(hands.must_claim())
    sent: list[Message] = []
    done: list[int] = []
    services: list[Callable[[], int]] = [
        LeaseExpirer(sessions).run_once,
        OutboxDispatcher(sessions, sent.append).run_once,
        Finisher(sessions).run_once,
        Waker(sessions).run_once,
    ]

    def run() -> None:
        done.append(sum(service() for service in services))

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == 3
    with sessions() as session:
        assert session.scalar(select(func.count()).where(Task.lost == 1)) == 8
    hands.work()
    with sessions() as session:
        assert set(session.scalars(select(Job.state))) == {JobState.COMPLETED}
