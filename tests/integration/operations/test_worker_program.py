"""What the worker's program does when an operator asks something of a worker."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from farm.db.engine import Sessions, transact
from farm.db.enums import RequestedState
from farm.db.tables import Worker
from farm.jobs import fleet
from farm.settings import Settings
from farm.worker.__main__ import Running, plan_workers
from farm.worker.calls import Calls

ID = "w1-cpu"
SLEEPER = (sys.executable, "-c", "import signal; signal.pause()")


@pytest.fixture
def running(sessions: Sessions, tmp_path: Path) -> Iterator[Running]:
    """A worker whose Celery process does nothing, and ends when it is asked to."""
    settings = Settings(worker_name="w1")
    (plan,) = plan_workers(settings, [], host="host", cores=1)
    made = Running(replace(plan, argv=SLEEPER), sessions, settings, Calls(tmp_path))
    made.tend()
    yield made
    made.ask_to_stop()
    made.wait()


def ask(sessions: Sessions, state: RequestedState) -> None:
    transact(sessions, lambda s: fleet.request_state(s, ID, state, actor="tester"))


def ended(running: Running) -> int:
    """Wait until the process that was asked to stop has ended; the id that it had."""
    pid = running.pid
    psutil.wait_procs([psutil.Process(pid)], timeout=30)
    return pid


def row(sessions: Sessions) -> Worker:
    with sessions() as session:
        return session.get_one(Worker, ID)


def test_a_worker_is_restarted(sessions: Sessions, running: Running) -> None:
    ask(sessions, RequestedState.RESTART)
    running.tend()
    before = ended(running)
    running.tend()
    running.tend()
    assert running.pid != before
    assert (row(sessions).state, row(sessions).requested) == ("awake", None)


def test_a_worker_leaves_and_comes_back(sessions: Sessions, running: Running) -> None:
    ask(sessions, RequestedState.OFFLINE)
    running.tend()
    before = ended(running)
    running.tend()
    assert row(sessions).state == "offline"
    running.tend()
    assert running.pid == before, "it stays away"
    ask(sessions, RequestedState.AWAKE)
    running.tend()
    running.tend()
    assert running.pid != before
    assert (row(sessions).state, row(sessions).requested) == ("awake", None)


def test_a_worker_that_sleeps_keeps_its_process(sessions: Sessions, running: Running) -> None:
    pid = running.pid
    ask(sessions, RequestedState.ASLEEP)
    running.tend()
    running.tend()
    assert running.pid == pid
