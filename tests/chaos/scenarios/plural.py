"""Many of everything at once, and caps that hold all the same."""

from __future__ import annotations

import random
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import psutil
from sqlalchemy import text

from farm.db.engine import Sessions, make_engine, make_sessions, transact
from farm.errors import ErrorClass, StaleLeaseError
from farm.jobs import Policy, Progress, Slot, fleet
from farm.local.services import module_argv
from farm.worker.control import Control
from tests.chaos.harness import LEASE, ChaosError, ChaosFarm
from tests.chaos.points import Fault
from tests.chaos.scenario import Scenario, some_chunks

KIND = "plural"
MORE_WORKERS, SLOTS_EACH = 3, 3


@contextmanager
def more_workers(farm: ChaosFarm, count: int) -> Iterator[None]:
    """Other workers beside the farm's own, each a whole program with its Celery worker and slots."""
    env = psutil.Process(farm.pids("worker")[0]).environ()
    started = [
        subprocess.Popen(
            (*module_argv("tests.chaos.programs"), "worker"),
            env={**env, "FARM_WORKER_NAME": f"more-{number}", "FARM_SLOTS": str(SLOTS_EACH)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for number in range(count)
    ]
    try:
        awake = text("SELECT count(*) FROM worker WHERE id LIKE 'more-%' AND state = 'awake'")
        farm.wait("more workers", lambda: farm.read(lambda s: s.scalar(awake)) == count)
        yield
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait(60)


def many_workers(farm: ChaosFarm, dice: random.Random) -> list[str]:
    """A dozen slots of four workers race for the chunks of three jobs; one of the workers dies of it."""
    with more_workers(farm, MORE_WORKERS):
        jobs = [farm.submit(some_chunks(dice)) for _ in range(3)]
        time.sleep(dice.random())
        farm.signal(farm.slots()[:1], signal.SIGKILL)
        for job in jobs:
            farm.completed(job)
    return jobs


LIGHT, CLAIMS_EACH = 100, 3


def a_hundred_workers(farm: ChaosFarm, dice: random.Random) -> list[str]:
    """A hundred more slots race for the tasks by the statements of a worker; each hands back what it got, thrice."""
    assert farm.local.state is not None
    engine = make_engine(farm.local.state.database_url, application="chaos-light", pool_size=15)
    sessions = make_sessions(engine)
    made = [farm.submit(some_chunks(dice)) for _ in range(3)]
    with ThreadPoolExecutor(LIGHT) as pool:
        seeds = [dice.randrange(1 << 30) for _ in range(LIGHT)]
        held = [pool.submit(_light_worker, sessions, f"light-{n}", seed) for n, seed in enumerate(seeds)]
        claims = sum(one.result() for one in held)
    engine.dispose()
    if not claims:
        raise ChaosError("none of a hundred workers got a task")
    for job in made:
        farm.completed(job)
    return made


def _light_worker(sessions: Sessions, name: str, seed: int) -> int:
    """Registers, claims, reports and hands back, and leaves. Returns how many tasks it had."""
    dice, control, had = random.Random(seed), Control(sessions, Policy(lease_seconds=LEASE)), 0
    slot = Slot(worker_id=name)
    transact(sessions, lambda s: fleet.register(s, fleet.WorkerReport(id=name, name=name, slots=(slot,))))
    for _ in range(CLAIMS_EACH):
        time.sleep(0.5 * dice.random())
        claim = control.claim(slot)
        if claim is not None:
            had += 1
            control.heartbeat(claim.lease, Progress(frames_done=1))
            time.sleep(0.2 * dice.random())
            with suppress(StaleLeaseError):
                control.fail(claim.lease, ErrorClass.INTERRUPTED, "It is only a light worker.")
    transact(sessions, lambda s: fleet.leave(s, name, "It has seen enough."))
    return had


def caps(farm: ChaosFarm, dice: random.Random) -> list[str]:
    """A project that may run one task at a time, while its slots die and are claimed for; the watcher looks."""
    with farm.superuser() as connection:
        connection.execute("UPDATE project SET max_running = 1")
        try:
            farm.points.arm("mid-frame", Fault(dice.choice(["kill", "exit"])))
            jobs = [farm.submit(some_chunks(dice)) for _ in range(2)]
            for job in jobs:
                farm.completed(job)
        finally:
            connection.execute("UPDATE project SET max_running = NULL")
    return jobs


def two_mergers(farm: ChaosFarm, dice: random.Random) -> list[str]:
    """The first merger is thought to be dead, the second one begins, and then both are at work on one job."""
    farm.points.arm("merge-after-claim", Fault("stop"))
    job = farm.submit(some_chunks(dice))
    first = farm.met("merge-after-claim")
    farm.points.disarm()
    farm.points.arm("merge-after-upload", Fault("stop"))
    second = farm.met("merge-after-upload")
    farm.signal([first], signal.SIGCONT)
    time.sleep(LEASE * dice.random())
    farm.signal([second], signal.SIGCONT)
    farm.completed(job)
    return [job]


def one_key_at_two_apis(farm: ChaosFarm, dice: random.Random) -> list[str]:
    """One submission is sent four times at once, to whichever of the two APIs takes it."""
    key = uuid.UUID(int=dice.getrandbits(128)).hex
    with ThreadPoolExecutor(4) as pool:
        sent = [pool.submit(farm.submit, 0.7, key=key) for _ in range(4)]
        made = {one.result() for one in sent}
    if len(made) != 1:
        raise ChaosError(f"one idempotency key made {len(made)} jobs")
    job = made.pop()
    farm.completed(job)
    return [job]


SCENARIOS = tuple(
    Scenario(name, KIND, run)
    for name, run in (
        ("many workers", many_workers),
        ("a hundred workers", a_hundred_workers),
        ("caps while slots die", caps),
        ("two mergers", two_mergers),
        ("one key at two APIs", one_key_at_two_apis),
    )
)
