"""Many of everything at once, and caps that hold all the same."""

from __future__ import annotations

import random
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psutil
from sqlalchemy import text

from farm.local.services import module_argv
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
        ("caps while slots die", caps),
        ("two mergers", two_mergers),
        ("one key at two APIs", one_key_at_two_apis),
    )
)
