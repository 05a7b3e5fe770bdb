"""How often a worker asks the database: rarely where there are many, at once where there is news."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from sqlalchemy import delete, event, insert, select, text

from farm.db.engine import Sessions, make_engine, make_sessions, transact
from farm.db.enums import RequestedState, WorkerState
from farm.db.tables import Footprint, Worker
from farm.jobs import Progress, fleet
from farm.jobs.fit import Measured
from farm.jobs.policy import Policy
from farm.jobs.reconcile import WorkerReaper
from farm.jobs.schedules import ScheduleView, Window, set_schedule
from farm.worker.control import Control
from farm.worker.registry import LOOKS, Registration
from farm.worker.relay import Relay
from tests.integration.jobs.hands import Hands


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def sessions(schema_database: str) -> Iterator[Sessions]:
    """A database that is thrown away: what it believes of the number of workers must not outlive the test."""
    engine = make_engine(schema_database)
    yield make_sessions(engine)
    engine.dispose()


@pytest.fixture
def clock() -> Clock:
    return Clock()


def crowd(sessions: Sessions, number: int) -> None:
    """Other workers, and the database's knowledge of their number."""
    rows = [{"id": f"x{n}", "name": "x", "state": WorkerState.AWAKE} for n in range(number)]
    with sessions.begin() as session:
        session.execute(insert(Worker), rows)
        session.execute(text("ANALYZE worker"))


@pytest.fixture
def registration(sessions: Sessions, clock: Clock) -> Registration:
    """One of a thousand workers: they are to ask every two seconds."""
    crowd(sessions, 1000)
    made = Registration(sessions, "w1", "cpu", 1, (), os.getpid, clock=clock)
    for _ in range(LOOKS + 1):
        made.tend()
    return made


def seen(sessions: Sessions) -> datetime:
    with sessions() as session:
        return session.scalars(select(Worker.seen_at).where(Worker.id == "w1")).one()


def test_a_worker_without_news_asks_when_it_is_due(
    sessions: Sessions, registration: Registration, clock: Clock
) -> None:
    before = seen(sessions)
    asked: list[str] = []
    event.listen(sessions.kw["bind"], "before_cursor_execute", lambda *a: asked.append(a[2]))
    assert registration.tend() is None
    assert asked == []
    clock.now += 2.1
    registration.tend()
    assert seen(sessions) > before


def test_trouble_is_told_at_once(sessions: Sessions, registration: Registration) -> None:
    registration.tend("Its program ends.")
    with sessions() as session:
        assert session.scalars(select(Worker.state).where(Worker.id == "w1")).one() is WorkerState.ERROR
    registration.tend()
    with sessions() as session:
        assert session.scalars(select(Worker.state).where(Worker.id == "w1")).one() is WorkerState.AWAKE


def test_a_wish_is_heard_with_the_next_beat_and_remembered(
    sessions: Sessions, registration: Registration, clock: Clock
) -> None:
    transact(sessions, lambda s: fleet.request_state(s, "w1", RequestedState.OFFLINE, actor="tester"))
    clock.now += 2.1
    assert registration.tend() is RequestedState.OFFLINE
    assert registration.tend() is RequestedState.OFFLINE


def test_slots_that_report_say_that_their_worker_lives(sessions: Sessions, clock: Clock, tmp_path: Path) -> None:
    """One call of a worker's program fewer for each report that comes in time; none is missed where they end."""
    crowd(sessions, 1000)  # so that each is to be heard of every two seconds
    hands = Hands(sessions, "w1")
    hands.submit()
    relay = Relay(tmp_path, "w1", clock)
    registration = Registration(sessions, "w1", "cpu", 1, (), os.getpid, relay=relay, clock=clock)
    for _ in range(LOOKS + 1):
        registration.tend()
    claim, control = hands.must_claim(), Control(sessions, Policy())
    for _ in range(5):
        before = seen(sessions)
        clock.now += 2.0
        assert relay.is_wanted(2.0)
        answer = control.heartbeat(claim.lease, Progress(), carries=True)
        assert answer.carried_seconds == 2.0
        relay.told(answer.carried_seconds)
        said = seen(sessions)
        assert said > before
        clock.now += 0.4
        registration.tend()
        assert seen(sessions) == said
    clock.now += 2.2
    registration.tend()
    assert seen(sessions) > said, "no slot reports any more"


@pytest.mark.parametrize("wanted", [RequestedState.ASLEEP, None])
def test_a_report_says_nothing_of_a_worker_of_which_something_is_wanted(
    sessions: Sessions, registration: Registration, wanted: RequestedState | None
) -> None:
    hands = Hands(sessions, "w1")
    hands.submit()
    claim = hands.must_claim()
    if wanted:
        transact(sessions, lambda s: fleet.request_state(s, "w1", wanted, actor="tester"))
    else:
        hours = Window(days=("mon",), start="09:00", end="17:00")
        schedule = ScheduleView(target="worker:w1", zone="UTC", windows=(hours,))
        transact(sessions, lambda s: set_schedule(s, schedule, actor="tester"))
    before = seen(sessions)
    answer = Control(sessions, Policy()).heartbeat(claim.lease, Progress(), carries=True)
    assert answer.alive
    assert answer.carried_seconds is None
    assert seen(sessions) == before


def test_a_report_waits_for_nobody_who_changes_its_worker(sessions: Sessions, registration: Registration) -> None:
    hands = Hands(sessions, "w1")
    hands.submit()
    claim = hands.must_claim()
    with sessions.begin() as session:
        session.execute(select(Worker).where(Worker.id == "w1").with_for_update(key_share=True))
        answer = Control(sessions, Policy()).heartbeat(claim.lease, Progress(), carries=True)
    assert answer.alive
    assert answer.carried_seconds is None


def test_nobody_is_taken_for_gone_who_is_not_to_be_heard_of_yet(sessions: Sessions) -> None:
    """A hundred thousand workers, in small: each is heard of every 200 s."""
    crowd(sessions, 200)
    policy = Policy(worker_beats_per_second=1)
    silent = text("UPDATE worker SET seen_at = now() - make_interval(secs => :seconds) WHERE id = 'x7'")
    for seconds, gone in ((400, 0), (700, 1)):
        with sessions.begin() as session:
            session.execute(silent, {"seconds": seconds})
        assert WorkerReaper(sessions, policy).run_once() == gone


def test_workers_beat_more_rarely_in_a_large_farm(sessions: Sessions) -> None:
    crowd(sessions, 200)
    policy = Policy(worker_beats_per_second=10)
    assert transact(sessions, lambda s: fleet.beat(s, "x7", policy=policy)).next_seconds == 20
    transact(sessions, lambda s: fleet.request_state(s, "x7", RequestedState.ASLEEP, actor="tester"))
    assert transact(sessions, lambda s: fleet.beat(s, "x7", policy=policy)).next_seconds == 20


def test_what_was_measured_on_a_card_is_told_once_and_again_when_it_changes(sessions: Sessions) -> None:
    lines = [Measured(recipe="r", card="c", needs_mb=5, seen_mb=9, batch=8)]
    made = Registration(sessions, "w1", "gpu0", 1, (), os.getpid, measured=lambda: tuple(lines))

    def told() -> list[int]:
        with sessions() as session:
            return list(session.scalars(select(Footprint.needs_mb)))

    made.tend()
    assert told() == [5]
    with sessions.begin() as session:
        session.execute(delete(Footprint))
    made.tend()
    assert told() == []
    lines[0] = lines[0].model_copy(update={"needs_mb": 7})
    made.tend()
    assert told() == [7]
