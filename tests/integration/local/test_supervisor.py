"""The supervisor with services of a few lines: order, restarts, and nothing left behind, whatever is killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from farm.errors import ConflictError, InfrastructureError, InputError
from farm.local.farm import LocalFarm
from farm.local.home import FarmState, Home
from farm.local.process import marked
from farm.settings import load_settings
from tests.integration.local.conftest import ROOT, eventually, farm, guard_of, kill
from tests.integration.local.fakes import entries, starts


def _up(local: LocalFarm) -> FarmState:
    state = local.up()
    assert state.ready
    assert len(marked(state.instance)) == 4  # two services, each with a child
    return state


def test_services_start_in_order_and_stop_in_the_opposite_one(home: Path) -> None:
    with farm(home, "two") as local:
        state = local.state
        assert state is not None
        assert Home(home).holder() == state.pid
        assert sorted(local.processes()) == ["first", "second"]
    assert [entry[:2] for entry in entries(home)] == [
        ["first", "starts"],
        ["second", "starts"],
        ["second", "stops"],
        ["first", "stops"],
    ]
    assert marked(state.instance) == []
    assert not psutil.pid_exists(state.pid)
    assert Home(home).last_state() is None


def test_up_goes_on_without_its_starter_and_down_ends_it(home: Path) -> None:
    local = farm(home, "two")
    assert local.down() is False
    state = _up(local)
    guard = guard_of(state.instance)
    assert LocalFarm(home).state == state
    assert (home / "farm.json").stat().st_mode & 0o777 == 0o600
    assert local.down() is True
    assert marked(state.instance) == []
    assert not psutil.pid_exists(guard)
    assert local.state is None


def test_a_killed_service_is_started_again_without_what_it_left(home: Path) -> None:
    with farm(home, "two") as local:
        state = local.state
        assert state is not None
        old = [process.pid for process in marked(state.instance, "first")]
        for times in (2, 3):
            kill(starts(home, "first")[-1])
            eventually(lambda times=times: len(starts(home, "first")) == times)
        new = [process.pid for process in marked(state.instance, "first")]
        assert len(new) == 2
        assert set(old).isdisjoint(new)
        assert len(starts(home, "second")) == 1


def test_nothing_outlives_a_killed_supervisor(home: Path) -> None:
    local = farm(home, "two")
    state = _up(local)
    guard = psutil.Process(guard_of(state.instance))
    kill(state.pid)
    guard.wait(20)
    assert marked(state.instance) == []
    assert local.state is None
    with local:
        assert local.state is not None
        assert local.state.instance != state.instance


def test_a_killed_guard_is_replaced(home: Path) -> None:
    local = farm(home, "two")
    state = _up(local)
    first = guard_of(state.instance)
    kill(first)
    eventually(lambda: any(_guards(state.instance)))
    kill(state.pid)
    eventually(lambda: not marked(state.instance))


def _guards(instance: str) -> list[int]:
    try:
        return [guard_of(instance)]
    except AssertionError:
        return []


def test_the_next_farm_ends_what_outlived_supervisor_and_guard(home: Path) -> None:
    local = farm(home, "two")
    state = _up(local)
    os.kill(state.pid, signal.SIGSTOP)  # so that it cannot replace the guard
    kill(guard_of(state.instance))
    kill(state.pid)
    assert len(marked(state.instance)) == 4
    with local:
        assert marked(state.instance) == []
        assert len(starts(home, "first")) == 2


def test_a_second_farm_in_the_home_is_refused_and_a_block_uses_the_first(home: Path) -> None:
    local = farm(home, "two")
    state = _up(local)
    with pytest.raises(ConflictError, match=f"already up in this home \\(process {state.pid}\\)"):
        farm(home, "two").up()
    with farm(home, "two") as other:
        assert other.state == state
    assert local.state == state
    assert len(starts(home, "first")) == 1
    local.down()


def test_a_service_that_fails_stops_the_start_with_its_last_words(home: Path) -> None:
    said = r"(?s)broken: The service ended with exit code 1.*the dog ate my socket"
    with pytest.raises(InfrastructureError, match=said):
        farm(home, "broken").up()
    assert [entry[:2] for entry in entries(home)] == [["first", "starts"], ["first", "stops"]]
    assert Home(home).holder() is None
    assert not any(starts(home, "first")[0] == process.pid for process in psutil.process_iter())


def test_a_farm_that_cannot_be_planned_leaves_no_sockets_and_no_state(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    deep = home.joinpath(*["deep" * 10] * 4)
    with pytest.raises(InfrastructureError, match="cannot even be planned"):
        farm(deep, "unplanned").up()
    assert [path.name for path in tmp_path.iterdir()] == ["home"]
    assert Home(deep).last_state() is None


def test_a_service_that_never_answers_is_given_up(home: Path) -> None:
    with pytest.raises(InfrastructureError, match=r"silent: The service does not answer after 0 s"):
        farm(home, "silent").up()


def test_a_service_that_does_not_stop_is_killed(home: Path) -> None:
    with farm(home, "stubborn") as local:
        state = local.state
        assert state is not None
    assert [entry[1] for entry in entries(home)] == ["starts", "stops"]
    assert marked(state.instance) == []


_EMBEDDER = """
import signal, sys
from pathlib import Path
from tests.integration.local.conftest import farm
with farm(Path(sys.argv[1]), "two") as local:
    print(local.state.instance, local.state.pid, flush=True)
    signal.pause()
"""


def test_an_embedded_farm_ends_with_the_program_that_is_killed(home: Path) -> None:
    program = subprocess.Popen(
        [sys.executable, "-c", _EMBEDDER, str(home)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert program.stdout is not None
    instance, pid = program.stdout.readline().split()
    supervisor = psutil.Process(int(pid))
    program.kill()
    program.wait()
    program.stdout.close()
    supervisor.wait(20)
    assert marked(instance) == []
    assert [entry[1] for entry in entries(home)] == ["starts", "starts", "stops", "stops"]


def test_a_port_that_was_asked_for_and_is_taken_is_named(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        settings = load_settings(api_port=port)
        local = LocalFarm(home, settings, services="tests.integration.local.fakes:two")
        with pytest.raises(InputError, match=f"127.0.0.1:{port}: Address already in use"):
            local.up()
    assert entries(home) == []


def test_the_url_stays_the_same_from_run_to_run(home: Path) -> None:
    urls = set()
    for _ in range(2):
        with farm(home, "two") as local:
            assert local.state is not None
            urls.add(local.state.url)
    assert len(urls) == 1
