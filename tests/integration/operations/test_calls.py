"""What is told to jobs and workers is heard by those that it is about, however rarely they report."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from farm.db.engine import Sessions, make_engine, transact
from farm.db.enums import RequestedState
from farm.errors import InterruptedTaskError, StaleLeaseError
from farm.jobs import Progress, TaskKind, fleet, heartbeat
from farm.jobs.wire import Claim, HeartbeatAnswer
from farm.worker.calls import Calls, Ear, Listener
from farm.worker.heartbeat import Beat, Heartbeat
from tests.integration.jobs.hands import Hands
from tests.unit.worker.test_heartbeat import wait_for_stop

Heard = Callable[[], str]


@pytest.fixture
def heard(sessions: Sessions) -> Iterator[Heard]:
    """The next name that is called."""
    names: queue.Queue[str] = queue.Queue()
    engine = make_engine(sessions.kw["bind"].url.render_as_string(hide_password=False), pool_size=1)
    listener = Listener(engine, names.put)
    listener.start()
    assert listener.listening.wait(30)
    yield lambda: names.get(timeout=30)
    listener.stop()
    engine.dispose()


def test_each_command_calls_those_that_it_is_about(sessions: Sessions, heard: Heard) -> None:
    hands = Hands(sessions)
    first, second = hands.submit(), hands.submit()
    for _ in (first, second):
        hands.plan(1)
        assert hands.must_claim(TaskKind.RENDER)
    hands.command("pause", first)
    assert heard() == first
    hands.command("requeue", second, what="job")
    assert heard() == second
    hands.command("cancel", first)
    assert heard() == first
    transact(sessions, lambda s: fleet.register(s, fleet.WorkerReport(id="w9", name="w9", slots=(hands.slot,))))
    transact(sessions, lambda s: fleet.request_state(s, "w9", RequestedState.ASLEEP, after_task=False, actor="t"))
    assert heard() == "w9"


@pytest.mark.parametrize(
    ("command", "what", "error"),
    [
        ("cancel", {}, InterruptedTaskError),
        ("pause", {}, InterruptedTaskError),
        ("delete", {}, InterruptedTaskError),
        ("requeue", {"what": "job"}, StaleLeaseError),
    ],
)
def test_a_slot_that_reports_once_an_hour_hears_at_once(
    sessions: Sessions, tmp_path: Path, command: str, what: dict[str, str], error: type[Exception]
) -> None:
    hands, calls = Hands(sessions), Calls(tmp_path)
    job = hands.submit()
    claim = hands.must_claim()
    listener = Listener(sessions.kw["bind"], calls.mark)
    listener.start()
    assert listener.listening.wait(30)
    with Heartbeat(beat_of(sessions, claim), 3600, called=Ear(calls, job, "w1")) as beating:
        hands.command(command, job, **what)
        with pytest.raises(error):
            wait_for_stop(beating)
    listener.stop()


def beat_of(sessions: Sessions, claim: Claim) -> Callable[[Beat], HeartbeatAnswer]:
    return lambda report: heartbeat(sessions, claim.lease, Progress(frames_done=report.done))


def test_an_ear_hears_each_call_once_and_only_its_own(tmp_path: Path) -> None:
    calls = Calls(tmp_path)
    ear = Ear(calls, "job", "worker")
    calls.mark("other")
    assert not ear()
    calls.mark("worker")
    assert ear()
    assert not ear()
    calls.sweep(seconds=-1)
    assert list(tmp_path.iterdir()) == []


def test_a_listener_listens_again_after_its_connection_was_cut(sessions: Sessions, heard: Heard) -> None:
    hands = Hands(sessions)
    job = hands.submit()
    assert hands.must_claim()
    listeners = "FROM pg_stat_activity WHERE query LIKE 'LISTEN farm_calls%' AND datname = current_database()"
    with sessions.begin() as session:
        cut = {row.pid for row in session.execute(text(f"SELECT pid, pg_terminate_backend(pid) {listeners}"))}
    assert cut
    with sessions() as session:  # the one that was cut may still be seen for a moment
        while not set(session.scalars(text(f"SELECT pid {listeners} AND state = 'idle'"))) - cut:
            session.rollback()
    hands.command("pause", job)
    assert heard() == job
