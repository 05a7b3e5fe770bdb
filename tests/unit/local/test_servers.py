from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from farm.errors import InputError
from farm.local import postgres, valkey
from farm.local.home import Home
from farm.local.postgres import Postgres, major_version
from farm.local.postmaster import end_server
from farm.local.services import Plan, farm_services, listen
from farm.settings import load_settings


def test_postgres_listens_on_its_socket_only() -> None:
    argv = postgres.server_argv(Path("/b"), Path("/d"), Path("/s"))
    assert argv[:3] == ("/b/postgres", "-D", "/d")
    assert {"listen_addresses=", "unix_socket_directories=/s", "port=5432"} <= set(argv)


def test_valkey_has_no_port_and_forgets_nothing() -> None:
    argv = valkey.server_argv(Path("/v"), Path("/d"), Path("/s/valkey.sock"))
    options = dict(zip(argv[1::2], argv[2::2], strict=True))
    assert options["--port"] == "0"
    assert options["--appendonly"] == "yes"
    assert options["--maxmemory-policy"] == "noeviction"
    assert options["--unixsocket"] == "/s/valkey.sock"


def test_addresses_hold_any_path() -> None:
    assert Postgres(Path("/d"), Path("/a b/p")).url() == "postgresql+psycopg://farm@/farm?host=%2Fa%20b%2Fp"
    assert valkey.Valkey(Path("/d"), Path("/a b")).url() == "redis+socket:///a%20b/valkey.sock?virtual_host=0"


@pytest.mark.parametrize("text", ["", "x", "99999999\n/d\n", f"{os.getpid()}\n/d\n"])
def test_no_other_process_is_taken_for_the_server(tmp_path: Path, text: str) -> None:
    (tmp_path / "postmaster.pid").write_text(text)
    assert end_server(tmp_path) is False


def test_data_of_another_release_is_refused(tmp_path: Path) -> None:
    data = tmp_path / "postgres"
    data.mkdir()
    (data / "PG_VERSION").write_text("9\n")
    with pytest.raises(InputError, match=f"made by PostgreSQL 9, and this is {major_version()}"):
        Postgres(data, tmp_path).clear()


def test_a_taken_port_that_was_asked_for_is_an_input_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"cannot listen on 127.0.0.1:{port}"):
            listen("127.0.0.1", port)
        with listen("127.0.0.1", 0, remembered=port) as other:
            assert other.getsockname()[1] != port


def test_an_address_of_another_machine_is_an_input_error() -> None:
    with pytest.raises(InputError, match=r"cannot listen on 192\.0\.2\.1:0"):
        listen("192.0.2.1", 0)


def test_the_services_of_a_farm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FARM_SUPERVISED", "other/api")
    home = Home(tmp_path / "home")
    home.make()
    settings = load_settings(_env_file=None, worker_tags=("a", "b"), drain_seconds=7.0, scratch=Path("near"))
    with listen("127.0.0.1", 0) as listener:
        plan = Plan(home, settings, home.make_sockets(None), listener)
        services = {service.name: service for service in farm_services(plan)}
        port = listener.getsockname()[1]
    assert list(services) == ["postgres", "valkey", "reconciler", "worker", "api"]
    env = services["worker"].env
    assert env["FARM_URL"] == f"http://127.0.0.1:{port}"
    assert env["FARM_DATABASE_URL"] == plan.postgres.url()
    assert env["FARM_STORE"] == (home.path / "store").as_uri()
    assert env["FARM_WORKER_TAGS"] == "a,b"
    assert env["FARM_SCRATCH"] == str(Path("near").absolute())
    assert Path(env["FARM_URL_SECRET_FILE"]).read_text()
    assert "FARM_SUPERVISED" not in env
    assert services["worker"].stop_seconds > 7
    assert set(services["postgres"].env) == {"PATH", "LC_ALL", "TZ"}
