"""Stores that fail, are slow, forget and lie, and disks that are full."""

from __future__ import annotations

import random
import signal
import time
import uuid
from collections.abc import Callable

from sqlalchemy import select

from farm.db.tables import Task
from farm.jobs import TaskState
from farm.store.base import Store
from tests.chaos.bad_line import KINDS as LINE_KINDS
from tests.chaos.bad_line import SLOW, Trouble
from tests.chaos.farm import DISK, S3
from tests.chaos.harness import ChaosFarm
from tests.chaos.instrument import STORE, STORE_CALLS
from tests.chaos.points import AFTER, BEFORE, Fault, Rate
from tests.chaos.scenario import Run, Scenario, some_chunks
from tests.chaos.scenarios.database import failing

KIND, LINE, FULL = "store", "S3", "disk"
FULL_SECONDS = 8.0


def spoilt(spoil: Callable[[Store, str], object]) -> Run:
    """The object of an accepted chunk is lost or replaced before the merge reads it: the chunk is rendered again."""

    def run(farm: ChaosFarm, dice: random.Random) -> list[str]:
        farm.points.arm("merge-after-claim", Fault("stop"))
        job = farm.submit(some_chunks(dice))
        pid = farm.met("merge-after-claim")
        spoil(farm.store, dice.choice([info.key for info in farm.store.list(f"jobs/{job}/chunks/")]))
        farm.signal([pid], signal.SIGCONT)
        farm.completed(job)
        return [job]

    return run


def bad_line(kind: str) -> Run:
    """A share of all requests, whoever makes them, meets trouble on the way to S3 or back."""

    def run(farm: ChaosFarm, dice: random.Random) -> list[str]:
        assert farm.line is not None
        farm.line.trouble = Trouble(kind, 0.1 if kind == SLOW else 0.25, dice.randrange(1 << 30))
        job = farm.submit(some_chunks(dice), key=uuid.UUID(int=dice.getrandbits(128)).hex)
        farm.ended(job)
        farm.line.trouble = None
        farm.completed(job)
        return [job]

    return run


def full(disk: str) -> Run:
    """A disk is full while the job runs; when there is room again, the farm goes on by itself."""

    def run(farm: ChaosFarm, dice: random.Random) -> list[str]:
        job = farm.submit(some_chunks(dice))
        farm.wait_running(job)
        with farm.full(disk):
            until = time.monotonic() + FULL_SECONDS
            farm.wait("a task that waits for room", lambda: _waits(farm, job) or time.monotonic() > until)
        farm.completed(job)
        return [job]

    return run


def taken_over(spoil: Callable[[ChaosFarm, str, random.Random], object]) -> Run:
    """A second job of the same plate may take over the results of the first one, which are hurt meanwhile."""

    def run(farm: ChaosFarm, dice: random.Random) -> list[str]:
        title, seconds = uuid.UUID(int=dice.getrandbits(128)).hex, some_chunks(dice)
        first = farm.submit(seconds, title=title)
        farm.completed(first)
        farm.points.arm("after-claim", Fault("stop"))
        second = farm.submit(seconds, title=title)
        pid = farm.met("after-claim")
        spoil(farm, first, dice)
        farm.signal([pid], signal.SIGCONT)
        farm.completed(second)
        return [second]

    return run


def _vanish(farm: ChaosFarm, job: str, dice: random.Random) -> None:
    farm.store.delete_prefix(f"jobs/{job}/")


def _replace(farm: ChaosFarm, job: str, dice: random.Random) -> None:
    for info in list(farm.store.list(f"jobs/{job}/chunks/")):
        farm.store.put_bytes(info.key, b"something else")


def _hide(farm: ChaosFarm, job: str, dice: random.Random) -> None:
    farm.points.set_rate(STORE, Rate(0.05, dice.randrange(1 << 30)))


def _waits(farm: ChaosFarm, job: str) -> bool:
    wanted = select(Task.id).where(Task.job_id == job, Task.state == TaskState.BACKOFF).limit(1)
    return farm.is_final(job) or farm.read(lambda s: s.scalar(wanted)) is not None


SCENARIOS = (
    Scenario("store fails", KIND, failing(STORE, 0.05)),
    Scenario("store fails and is slow", KIND, failing(STORE, 0.02, slow=0.3)),
    *(Scenario(f"{call} not done", KIND, failing(STORE, 0.2, only=BEFORE, calls=call)) for call in STORE_CALLS),
    *(
        Scenario(f"{call} done, but not heard", KIND, failing(STORE, 0.2, only=AFTER, calls=call))
        for call in STORE_CALLS
    ),
    Scenario("taken-over results vanish", KIND, taken_over(_vanish)),
    Scenario("taken-over results are replaced", KIND, taken_over(_replace)),
    Scenario("results are taken over while the store fails", KIND, taken_over(_hide)),
    Scenario("result vanished", KIND, spoilt(lambda store, key: store.delete(key))),
    Scenario("result replaced", KIND, spoilt(lambda store, key: store.put_bytes(key, b"something else"))),
    *(Scenario(f"line to S3: {kind}", LINE, bad_line(kind), frozenset({S3})) for kind in LINE_KINDS),
    *(Scenario(f"disk of the {disk} full", FULL, full(disk), frozenset({DISK})) for disk in ("scratch", "store")),
)
