"""A database that restarts, crashes, stalls, writes nothing, has no room for connections, or whose answers get lost."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import psycopg
from sqlalchemy import func, select

from farm.api.schemas import JobIn
from farm.db.tables import Job
from tests.chaos.farm import DISK
from tests.chaos.harness import LEASE, ChaosError, ChaosFarm
from tests.chaos.instrument import COMMIT, ROLES, STATEMENT
from tests.chaos.points import AFTER, Rate
from tests.chaos.scenario import Run, Scenario, done_chunks, some_chunks

KIND = "database"
HURT_SECONDS = 12.0


def failing(name: str, share: float, *, slow: float = 0.0, only: str = "", calls: str = "") -> Run:
    """Calls fail by chance, half of them (or with `only` all) after they were done, until the job is half done."""

    def run(farm: ChaosFarm, dice: random.Random) -> list[str]:
        farm.points.set_rate(name, Rate(share, dice.randrange(1 << 30), slow, only, calls))
        job = farm.submit(some_chunks(dice), key=uuid.UUID(int=dice.getrandbits(128)).hex)
        until = time.monotonic() + HURT_SECONDS
        farm.wait(
            "some chunks, the end, or the time",
            lambda: time.monotonic() > until or farm.is_final(job) or done_chunks(farm, job) >= 3,
        )
        farm.points.set_rate(name, None)
        farm.completed(job)
        return [job]

    return run


def one_job_for_one_key(farm: ChaosFarm, dice: random.Random) -> list[str]:
    """Submissions whose commits fail or are not heard of: the caller tries again and gets one job."""
    farm.points.set_rate(COMMIT, Rate(0.25, dice.randrange(1 << 30)))
    options = JobIn(recipe="passthrough", deliverables=("ffv1",), chunk_seconds=60)
    made: list[str] = []
    for _ in range(3):
        key = uuid.UUID(int=dice.getrandbits(128)).hex
        first = farm.client.submit(options, plate=farm.plate, idempotency_key=key).id
        again = farm.client.submit(options, plate=farm.plate, idempotency_key=key).id
        if first != again:
            raise ChaosError("one idempotency key made two jobs")
        made.append(first)
    farm.points.set_rate(COMMIT, None)
    stored = farm.read(lambda s: s.scalar(select(func.count()).where(Job.id.in_(made))))
    if stored != len(made):
        raise ChaosError("a job that was confirmed is not there")
    for job in made:
        farm.completed(job)
    return made


def restarted(how: signal.Signals) -> Run:
    def run(farm: ChaosFarm, dice: random.Random) -> list[str]:
        job = farm.submit(some_chunks(dice))
        farm.wait_running(job)
        time.sleep(dice.random())
        farm.signal([min(farm.pids("postgres"))], how)
        farm.completed(job)
        return [job]

    return run


def read_only(farm: ChaosFarm, dice: random.Random) -> list[str]:
    """As after a fail-over to a standby: everything can be read, nothing written."""
    job = farm.submit(some_chunks(dice))
    farm.wait_running(job)
    # from here on by a connection that was told so, since new ones can write nothing
    with farm.superuser() as connection:
        connection.execute("SET default_transaction_read_only = off")
        connection.execute("ALTER SYSTEM SET default_transaction_read_only = on")
        connection.execute("SELECT pg_reload_conf()")
        time.sleep(1 + LEASE * dice.random())
        connection.execute("ALTER SYSTEM RESET default_transaction_read_only")
        connection.execute("SELECT pg_reload_conf()")
    farm.completed(job)
    return [job]


def _cut(connection: psycopg.Connection) -> None:
    connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'farm-%'")


def out_of_connections(farm: ChaosFarm, dice: random.Random) -> list[str]:
    """All connections are taken, those of the farm are cut."""
    job = farm.submit(some_chunks(dice))
    farm.wait_running(job)
    with farm.superuser() as connection:
        _cut(connection)
    held: list[psycopg.Connection] = []
    try:
        while len(held) < 200:
            held.append(farm.superuser())
    except psycopg.OperationalError:
        time.sleep(1 + LEASE * dice.random())
    for connection in held:
        connection.close()
    farm.completed(job)
    return [job]


def connections_cut(farm: ChaosFarm, dice: random.Random) -> list[str]:
    """Every connection of the farm is ended again and again, whatever it is doing."""
    job = farm.submit(some_chunks(dice))
    with farm.superuser() as connection:
        for _ in range(8):
            _cut(connection)
            time.sleep(0.4 * dice.random())
    farm.completed(job)
    return [job]


def stalled_by_a_lock(farm: ChaosFarm, dice: random.Random) -> list[str]:
    """Somebody holds a table for longer than a lease: nothing can be claimed, reported or repaired."""
    job = farm.submit(some_chunks(dice))
    farm.wait_running(job)
    table = dice.choice(["attempt", "task", "job"])
    with farm.superuser() as connection, connection.transaction():
        connection.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE".encode())
        time.sleep(LEASE + 1)
    farm.completed(job)
    return [job]


def disk_full(farm: ChaosFarm, dice: random.Random) -> list[str]:
    """The disk on which PostgreSQL keeps its busiest tables is full while a job runs, and has room again later."""
    tables = dice.choice([("event",), ("event", "attempt"), ("task", "outbox")])
    folder = farm.disks["tables"] / "space"
    folder.mkdir()
    farm.folder.chmod(0o711)  # PostgreSQL has an id of its own
    os.chown(folder, psutil.Process(min(farm.pids("postgres"))).uids().effective, -1)
    with farm.superuser() as connection:
        connection.execute(f"CREATE TABLESPACE chaos LOCATION '{folder}'".encode())
        try:
            for table in tables:
                connection.execute(f"ALTER TABLE {table} SET TABLESPACE chaos".encode())
            job = farm.submit(some_chunks(dice))
            farm.wait_running(job)
            with farm.full("tables"):
                time.sleep(LEASE + 2)
            farm.completed(job)
        finally:
            for table in tables:
                connection.execute(f"ALTER TABLE {table} SET TABLESPACE pg_default".encode())
            connection.execute("DROP TABLESPACE chaos")
            folder.rmdir()
    return [job]


def log_disk_full(farm: ChaosFarm, dice: random.Random) -> list[str]:
    """The disk of PostgreSQL's write-ahead log is full: it crashes, and cannot start until there is room again."""
    with farm.superuser() as connection:
        data = Path(str(connection.execute("SHOW data_directory").fetchone()[0]))  # type: ignore[index]
        for setting in ("wal_recycle = off", "max_wal_size = '32MB'", "min_wal_size = '32MB'"):
            connection.execute(f"ALTER SYSTEM SET {setting}".encode())
        connection.execute("SELECT pg_reload_conf()")
        connection.execute("CHECKPOINT")
    log, aside = data / "pg_wal", data / "pg_wal.aside"
    elsewhere = farm.disks["log"] / "pg_wal"
    farm.folder.chmod(0o711)  # PostgreSQL has an id of its own
    with _database_down(farm):
        _copy(log, elsewhere)
        log.rename(aside)
        log.symlink_to(elsewhere)
    try:
        job = farm.submit(some_chunks(dice))
        farm.wait_running(job)
        server = min(farm.pids("postgres"))
        with farm.full("log"):
            _fill_the_log(farm)
            farm.wait("the end of the server", lambda: not psutil.pid_exists(server))
            time.sleep(1 + LEASE * dice.random())
        farm.completed(job)
    finally:
        with _database_down(farm):
            log.unlink()
            shutil.rmtree(aside)
            _copy(elsewhere, log)
            shutil.rmtree(elsewhere)
        with farm.superuser() as connection:
            for setting in ("wal_recycle", "max_wal_size", "min_wal_size"):
                connection.execute(f"ALTER SYSTEM RESET {setting}".encode())
            connection.execute("SELECT pg_reload_conf()")
    return [job]


def _fill_the_log(farm: ChaosFarm) -> None:
    """Begin one file of the log after the other, until one cannot be made."""
    for _ in range(100):
        try:
            with farm.superuser() as connection:
                connection.execute("SELECT pg_logical_emit_message(true, 'chaos', repeat('x', 1000)), pg_switch_wal()")
        except psycopg.Error:
            return
    raise ChaosError("the disk of the log does not get full")


def _copy(folder: Path, to: Path) -> None:
    """With all that is in it, and for the same id."""
    shutil.copytree(folder, to)
    own = folder.stat()
    for path in (to, *to.rglob("*")):
        os.chown(path, own.st_uid, own.st_gid)


@contextmanager
def _database_down(farm: ChaosFarm) -> Iterator[None]:
    """PostgreSQL is shut down in good order, and nobody starts it again, inside the block."""
    farm.wait("the database", lambda: _answers(farm))
    server = psutil.Process(min(farm.pids("postgres")))
    with farm.freezing([server.ppid()]):
        farm.signal([server.pid], signal.SIGINT)
        farm.wait("its end", lambda: not server.is_running() or server.status() == psutil.STATUS_ZOMBIE)
        yield
    farm.wait("the database", lambda: _answers(farm))


def _answers(farm: ChaosFarm) -> bool:
    with suppress(psycopg.OperationalError):
        farm.superuser().close()
        return True
    return False


def _named(name: str, run: Run) -> Scenario:
    return Scenario(name, KIND, run)


SCENARIOS = (
    _named("commits fail", failing(COMMIT, 0.1)),
    _named("statements fail", failing(STATEMENT, 0.01)),
    *(
        _named(f"commits of the {role} done, but not heard", failing(COMMIT, 0.3, only=AFTER, calls=role))
        for role in ROLES
    ),
    *(
        _named(f"statements of the {role} done, but not heard", failing(STATEMENT, 0.04, only=AFTER, calls=role))
        for role in ROLES
    ),
    _named("one job for one key", one_job_for_one_key),
    _named("database restarted", restarted(signal.SIGINT)),
    _named("database crashed", restarted(signal.SIGQUIT)),
    _named("database read-only", read_only),
    _named("database out of connections", out_of_connections),
    _named("connections cut", connections_cut),
    _named("database stalled by a lock", stalled_by_a_lock),
    Scenario("database's disk full", KIND, disk_full, frozenset({DISK})),
    Scenario("disk of the database's log full", KIND, log_disk_full, frozenset({DISK})),
)
