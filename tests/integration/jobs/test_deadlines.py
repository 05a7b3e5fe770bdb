"""Deadlines: the order of claims, and the warning when one will be missed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import func, update

from farm.db.engine import Sessions
from farm.db.tables import Attempt, Job
from farm.jobs import TaskKind, views, why
from farm.jobs.reconcile import DeadlineWatcher
from tests.integration.jobs.hands import Hands


def tomorrow() -> datetime:
    """Read when the test runs: tests collected long before would already be late."""
    return datetime.now(UTC) + timedelta(days=1)


@pytest.fixture
def watcher(sessions: Sessions) -> DeadlineWatcher:
    return DeadlineWatcher(sessions, every=0)


def told(sessions: Sessions, job: str) -> list[str]:
    with sessions() as session:
        return [e.kind for e in views.events_after(session, job) if e.kind in ("job.late", "job.on_time")]


def move_deadline(sessions: Sessions, job: str, hours: float) -> None:
    with sessions.begin() as session:
        at = func.clock_timestamp() + timedelta(hours=hours)
        session.execute(update(Job).where(Job.id == job).values(deadline=at))


def test_the_earliest_deadline_comes_first_within_a_priority(sessions: Sessions) -> None:
    hands = Hands(sessions)
    whenever, late, soon, urgent = (
        hands.submit(deadline=deadline, priority=priority)
        for deadline, priority in ((None, 50), (tomorrow() + timedelta(days=1), 50), (tomorrow(), 50), (None, 60))
    )
    assert [hands.must_claim().job.id for _ in range(4)] == [urgent, soon, late, whenever]


def test_chunks_of_the_job_that_is_due_go_before_those_of_an_older_one(sessions: Sessions) -> None:
    hands = Hands(sessions)
    old = hands.submit()
    hands.plan(2)
    due = hands.submit(deadline=tomorrow())
    hands.plan(2)
    renders = [hands.must_claim(TaskKind.RENDER).job.id for _ in range(4)]
    assert renders == [due, due, old, old]


def test_a_share_goes_before_a_deadline(sessions: Sessions) -> None:
    hands = Hands(sessions)
    hands.submit(project="a", deadline=tomorrow())
    hands.plan(3)
    hands.submit(project="b")
    hands.plan(3)
    projects = [hands.must_claim(TaskKind.RENDER).job.project for _ in range(4)]
    assert projects == ["a", "b", "a", "b"]


def test_a_deadline_that_has_passed_is_told_once_and_said_by_why(sessions: Sessions, watcher: DeadlineWatcher) -> None:
    hands = Hands(sessions)
    job = hands.submit(deadline=tomorrow())
    assert (watcher.run_once(), told(sessions, job)) == (0, [])
    move_deadline(sessions, job, -1)
    assert (watcher.run_once(), watcher.run_once()) == (1, 0)
    assert told(sessions, job) == ["job.late"]
    with sessions() as session:
        assert "It will miss its deadline" in why.why_job(session, job)
    move_deadline(sessions, job, 1)
    assert watcher.run_once() == 1
    assert told(sessions, job) == ["job.late", "job.on_time"]


def test_a_rate_that_will_not_do_is_foreseen(sessions: Sessions, watcher: DeadlineWatcher) -> None:
    hands = Hands(sessions)
    job = hands.submit(deadline=tomorrow())
    hands.plan(20)
    done = hands.must_claim()
    hands.finish(done)
    running = hands.must_claim()
    # a chunk of 10 frames took two hours, so the 190 that are left take 38
    with sessions.begin() as session:
        hours = func.clock_timestamp() - timedelta(hours=2)
        session.execute(update(Attempt).where(Attempt.id == done.lease.attempt_id).values(started_at=hours))
    assert watcher.run_once() == 1
    with sessions() as session:
        (event,) = [e for e in views.events_after(session, job) if e.kind == "job.late"]
    assert "(1 at work) it is rendered 14.0 h after its deadline: raise its priority" in event.reason
    assert 13.9 * 3600 < event.data["late_by_seconds"] < 14.1 * 3600
    hands.finish(running)
