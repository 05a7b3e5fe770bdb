from __future__ import annotations

import shutil
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest

from farm.errors import ConflictError, DiskFullError
from farm.local.home import FarmState, Home, remove_sockets


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "home")
    made.make()
    return made


def _state(**values: object) -> FarmState:
    fields = {
        "pid": 1,
        "instance": "i",
        "url": "u",
        "database_url": "d",
        "broker_url": "b",
        "store": "s",
        "sockets": "",
    }
    return FarmState(**{**fields, **values})


def test_others_may_pass_the_home_and_see_nothing(home: Home) -> None:
    assert home.path.stat().st_mode & 0o777 == 0o711
    for folder in (home.store, home.logs, home.secrets, home.scratch, home.valkey):
        assert folder.stat().st_mode & 0o777 == 0o700


def test_a_home_that_is_there_keeps_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    Home(tmp_path).make()
    assert tmp_path.stat().st_mode & 0o777 == 0o700


def test_one_holder_at_a_time(home: Home) -> None:
    assert home.holder() is None
    with home.locked():
        assert home.holder() is not None
        with pytest.raises(ConflictError, match="already up"), home.locked():
            pass
    assert home.holder() is None
    with home.locked():
        pass


def test_a_state_counts_only_while_its_farm_is_up_and_ready(home: Home) -> None:
    home.write_state(_state())
    assert home.running() is None
    with home.locked():
        assert home.running() is None
        home.write_state(_state(ready=True))
        assert home.running() == _state(ready=True)
    assert home.running() is None
    assert home.last_state() == _state(ready=True)
    home.clear_state()
    assert home.last_state() is None


def test_a_secret_is_made_once(home: Home) -> None:
    path = home.secret("url_secret")
    first = path.read_text()
    assert len(first) >= 32
    assert path.stat().st_mode & 0o777 == 0o600
    assert home.secret("url_secret").read_text() == first
    assert home.secret("session_secret").read_text() != first


def test_a_full_disk_is_said(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=3 << 20))
    with pytest.raises(DiskFullError, match="3 MiB are free and the farm needs 256"):
        home.make()


def test_sockets_lie_in_the_home_or_where_their_path_is_short(home: Home, tmp_path: Path) -> None:
    assert home.make_sockets(None) == home.path / "run"
    deep = Home(tmp_path / ("x" * 100))
    deep.make()
    short = deep.make_sockets(None)
    try:
        assert len(str(short / "postgres" / ".s.PGSQL.5432")) <= 107
        assert (short / "postgres").stat().st_mode & 0o777 == 0o700
        again = deep.make_sockets(_state(sockets=str(short)))
        assert not short.exists()
    finally:
        remove_sockets(again)
    assert not again.exists()


def test_only_sockets_are_removed(home: Home) -> None:
    folder = home.make_sockets(None)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "valkey" / "valkey.sock"))
    (folder / "postgres" / "mine.txt").write_text("x")
    remove_sockets(folder)
    assert (folder / "postgres" / "mine.txt").exists()
    (folder / "postgres" / "mine.txt").unlink()
    remove_sockets(folder)
    assert not folder.exists()


def test_the_last_port(home: Home) -> None:
    assert home.last_port() == 0
    home.remember_port(4711)
    assert home.last_port() == 4711
