"""What is done to the farm. Each scenario hurts it once, and gives the jobs that must have ended well all the same."""

from __future__ import annotations

import random
import signal
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass

import psycopg
from sqlalchemy import func, select

from farm import jobs
from farm.api.schemas import JobIn
from farm.db.engine import transact
from farm.db.enums import OutboxTopic
from farm.db.tables import Chunk, Job
from farm.jobs.reconcile import Message
from farm.store.base import Store
from farm.wakeups import Wakeups
from tests.chaos.harness import LEASE, ChaosError, ChaosFarm
from tests.chaos.instrument import COMMIT, MERGE_POINTS, POINTS, STORE
from tests.chaos.points import Fault, Rate

Run = Callable[[ChaosFarm, random.Random], list[str]]


@dataclass(frozen=True, slots=True)
class Scenario:
    """`run` returns the jobs to be judged."""

    name: str
    run: Run


def at_point(point: str, act: str) -> Run:
    """A slot dies, or freezes for longer than its lease and wakes up late, at a point."""

    def run(farm: ChaosFarm, dice: random.Random) -> list[str]:
        farm.points.arm(point, Fault(act))
        job = farm.submit()
        pid = farm.met(point)
        if act == "stop":
            farm.completed(job)
            farm.signal([pid], signal.SIGCONT)
        farm.completed(job)
        return [job]

    return run


def killed(service: str) -> Run:
    def run(farm: ChaosFarm, dice: random.Random) -> list[str]:
        job = farm.submit()
        farm.wait_running(job)
        farm.signal(farm.pids(service)[:1], signal.SIGKILL)
        farm.completed(job)
        return [job]

    return run


def frozen(service: str, seconds: float) -> Run:
    def run(farm: ChaosFarm, dice: random.Random) -> list[str]:
        job = farm.submit()
        farm.wait_running(job)
        with farm.freezing(farm.pids(service)):
            time.sleep(seconds)
        farm.completed(job)
        return [job]

    return run


def slots_frozen(farm: ChaosFarm, dice: random.Random) -> list[str]:
    """All slots stand still for longer than their leases, wherever they are, and come back."""
    job = farm.submit()
    farm.wait_running(job)
    with farm.freezing(farm.slots()):
        time.sleep(LEASE + 1)
    farm.completed(job)
    return [job]


def failing(name: str, share: float, slow: float = 0.0) -> Run:
    """Calls fail by chance, half of them after they were done."""

    def run(farm: ChaosFarm, dice: random.Random) -> list[str]:
        farm.points.set_rate(name, Rate(share, dice.randrange(1 << 30), slow))
        job = farm.submit()
        farm.wait("three chunks or the end", lambda: farm.is_final(job) or _done(farm, job) >= 3)
        farm.points.set_rate(name, None)
        farm.completed(job)
        return [job]

    return run


def _done(farm: ChaosFarm, job: str) -> int:
    wanted = select(func.count()).where(Chunk.job_id == job, Chunk.attempt_id.is_not(None))
    return farm.read(lambda s: s.scalar(wanted)) or 0


def one_job_for_one_key(farm: ChaosFarm, dice: random.Random) -> list[str]:
    """Submissions whose commits fail or are not heard of: the caller tries again and gets one job."""
    farm.points.set_rate(COMMIT, Rate(0.25, dice.randrange(1 << 30)))
    options = JobIn(recipe="passthrough", deliverables=("ffv1",), chunk_seconds=60)
    made: list[str] = []
    for _ in range(4):
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


def broker_flushed(farm: ChaosFarm, dice: random.Random) -> list[str]:
    """Every wake-up is lost, several times."""
    job = farm.submit()
    for _ in range(5):
        farm.broker.flushall()
        time.sleep(0.2 * dice.random())
    farm.completed(job)
    return [job]


def broker_clients_killed(farm: ChaosFarm, dice: random.Random) -> list[str]:
    job = farm.submit()
    for _ in range(20):
        farm.broker.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        time.sleep(0.05)
    farm.completed(job)
    later = farm.submit()
    farm.completed(later)
    return [job, later]


def wakes_doubled(farm: ChaosFarm, dice: random.Random) -> list[str]:
    """Many more wake-ups than work."""
    assert farm.local.state is not None
    wakeups = Wakeups(farm.local.state.broker_url)
    job = farm.submit()
    for _ in range(5):
        wakeups(Message(OutboxTopic.WAKE, {"count": 20}))
    wakeups.close()
    farm.completed(job)
    return [job]


def database_restarted(how: signal.Signals) -> Run:
    def run(farm: ChaosFarm, dice: random.Random) -> list[str]:
        job = farm.submit()
        farm.wait_running(job)
        farm.signal([min(farm.pids("postgres"))], how)
        farm.completed(job)
        return [job]

    return run


def database_read_only(farm: ChaosFarm, dice: random.Random) -> list[str]:
    """As after a fail-over to a standby: everything can be read, nothing written."""
    job = farm.submit()
    farm.wait_running(job)
    # from here on by a connection that was told so, since new ones can write nothing
    with farm.superuser() as connection:
        connection.execute("SET default_transaction_read_only = off")
        connection.execute("ALTER SYSTEM SET default_transaction_read_only = on")
        connection.execute("SELECT pg_reload_conf()")
        time.sleep(2)
        connection.execute("ALTER SYSTEM RESET default_transaction_read_only")
        connection.execute("SELECT pg_reload_conf()")
    farm.completed(job)
    return [job]


def database_full(farm: ChaosFarm, dice: random.Random) -> list[str]:
    """All connections are taken, those of the farm are cut."""
    job = farm.submit()
    farm.wait_running(job)
    with farm.superuser() as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'farm-%'"
        )
    held: list[psycopg.Connection] = []
    try:
        while len(held) < 200:
            held.append(farm.superuser())
    except psycopg.OperationalError:
        time.sleep(2)
    for connection in held:
        connection.close()
    farm.completed(job)
    return [job]


def cancelled(point: str) -> Run:
    """A cancel that races with the end of the job, or comes while a slot works."""

    def run(farm: ChaosFarm, dice: random.Random) -> list[str]:
        farm.points.arm(point, Fault("stop"))
        job = farm.submit()
        pid = farm.met(point)
        transact(farm.sessions, lambda s: jobs.cancel(s, job, actor="chaos"))
        farm.signal([pid], signal.SIGCONT)
        state = farm.ended(job)
        if state not in ("cancelled", "completed"):
            raise ChaosError(f"the cancelled job is {state}")
        return [job]

    return run


def paused(farm: ChaosFarm, dice: random.Random) -> list[str]:
    job = farm.submit()
    farm.wait_running(job)
    farm.client.command(job, "pause")
    farm.wait("the pause", lambda: farm.state(job) == "paused")
    if farm.running_any(job):
        raise ChaosError("a paused job has a running attempt")
    farm.client.command(job, "resume")
    farm.completed(job)
    return [job]


def requeued_while_running(farm: ChaosFarm, dice: random.Random) -> list[str]:
    """A chunk is asked for again while a slot is at work on it: the frozen slot's late result must not count."""
    farm.points.arm("after-upload", Fault("stop"))
    job = farm.submit()
    pid = farm.met("after-upload")
    transact(farm.sessions, lambda s: jobs.requeue(s, job, actor="chaos", what=0))
    transact(farm.sessions, lambda s: jobs.requeue(s, job, actor="chaos", what=1))
    farm.signal([pid], signal.SIGCONT)
    farm.completed(job)
    return [job]


def requeued_when_completed(farm: ChaosFarm, dice: random.Random) -> list[str]:
    job = farm.submit()
    farm.completed(job)
    for what in (1, "job"):
        transact(farm.sessions, lambda s, what=what: jobs.requeue(s, job, actor="chaos", what=what))
        if farm.is_final(job):
            raise ChaosError("a requeued job is still final")
        farm.completed(job)
    return [job]


def result_spoilt(spoil: Callable[[Store, str], object]) -> Run:
    """The object of an accepted chunk is lost or replaced before the merge reads it: the chunk is rendered again."""

    def run(farm: ChaosFarm, dice: random.Random) -> list[str]:
        farm.points.arm("merge-after-claim", Fault("stop"))
        job = farm.submit()
        pid = farm.met("merge-after-claim")
        spoil(farm.store, dice.choice([info.key for info in farm.store.list(f"jobs/{job}/chunks/")]))
        farm.signal([pid], signal.SIGCONT)
        farm.completed(job)
        return [job]

    return run


SCENARIOS = (
    *(Scenario(f"{act} {point}", at_point(point, act)) for point in POINTS for act in ("kill", "exit", "stop")),
    *(Scenario(f"{act} {point}", at_point(point, act)) for point in MERGE_POINTS for act in ("kill", "stop")),
    *(Scenario(f"kill {name}", killed(name)) for name in ("worker", "api", "reconciler", "valkey", "postgres")),
    *(Scenario(f"freeze {name}", frozen(name, LEASE + 1)) for name in ("reconciler", "valkey", "postgres")),
    Scenario("freeze slots", slots_frozen),
    Scenario("failing store", failing(STORE, 0.05)),
    Scenario("slow, failing store", failing(STORE, 0.02, 0.3)),
    Scenario("failing commits", failing(COMMIT, 0.1)),
    Scenario("one job for one key", one_job_for_one_key),
    Scenario("broker flushed", broker_flushed),
    Scenario("broker's clients killed", broker_clients_killed),
    Scenario("wake-ups doubled", wakes_doubled),
    Scenario("database restarted", database_restarted(signal.SIGINT)),
    Scenario("database crashed", database_restarted(signal.SIGQUIT)),
    Scenario("database read-only", database_read_only),
    Scenario("database out of connections", database_full),
    *(Scenario(f"cancel at {point}", cancelled(point)) for point in ("mid-frame", "after-upload", "after-commit")),
    *(Scenario(f"cancel at {point}", cancelled(point)) for point in ("merge-after-claim", "merge-after-upload")),
    Scenario("paused and resumed", paused),
    Scenario("requeued while running", requeued_while_running),
    Scenario("requeued when completed", requeued_when_completed),
    Scenario("chunk result vanished", result_spoilt(lambda store, key: store.delete(key))),
    Scenario("chunk result replaced", result_spoilt(lambda store, key: store.put_bytes(key, b"something else"))),
)
SHORT = (
    "kill mid-upload", "stop after-upload", "exit after-commit", "failing commits", "failing store", "broker flushed",
    "kill postgres", "cancel at merge-after-upload", "requeued while running", "chunk result vanished",
)  # fmt: skip
"""One of each kind, for `make test`."""
