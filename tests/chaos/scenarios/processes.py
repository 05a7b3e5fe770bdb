"""Processes that die, exit, freeze and come back late: at named points, or wherever they are."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tests.chaos.harness import LEASE, ChaosFarm
from tests.chaos.instrument import API, FLEET, MERGE_POINTS, POINTS, RECONCILER, ROLES, SLOT
from tests.chaos.points import Fault
from tests.chaos.scenario import Run, Scenario, some_chunks

ACTS = ("kill", "exit", "stop")
KIND = "process"
_SKIP = {**dict.fromkeys(POINTS, 2), SLOT: 8, RECONCILER: 8, API: 2, FLEET: 2}
"""At how many of the first times a point is reached a fault may come."""

Pids = Callable[[ChaosFarm], list[int]]


def at_point(point: str, act: str) -> Run:
    """A slot dies, or freezes for longer than its lease and wakes up late, at a point."""

    def run(farm: ChaosFarm, dice: random.Random) -> list[str]:
        farm.points.arm(point, Fault(act, dice.randrange(_SKIP.get(point, 1))))
        job = farm.submit(some_chunks(dice))
        pid = farm.met(point)
        if act == "stop":
            farm.completed(job)
            farm.signal([pid], signal.SIGCONT)
        farm.completed(job)
        return [job]

    return run


def at_step(role: str, step: str, act: str) -> Run:
    """A process of a role dies, or stands still for longer than a lease, at a step that it takes all the time.

    A frozen one may hold locks, so the others have to get by until it goes on.
    """

    def run(farm: ChaosFarm, dice: random.Random) -> list[str]:
        point = f"{role}-{step}"
        farm.points.arm(point, Fault(act, dice.randrange(_SKIP[role]) if "commit" in step else 0))
        with ThreadPoolExecutor(1) as pool:
            submitted = pool.submit(farm.submit, some_chunks(dice))
            pid = farm.met(point)
            if act == "stop":
                time.sleep(LEASE + 1)
                farm.signal([pid], signal.SIGCONT)
            job = submitted.result()
        farm.completed(job)
        return [job]

    return run


def signalled(pids: Pids, number: signal.Signals) -> Run:
    def run(farm: ChaosFarm, dice: random.Random) -> list[str]:
        job = farm.submit(some_chunks(dice))
        farm.wait_running(job)
        time.sleep(dice.random())
        farm.signal(pids(farm), number)
        farm.completed(job)
        return [job]

    return run


def frozen(pids: Pids) -> Run:
    """All of a kind stand still for longer than a lease, wherever they are, and come back."""

    def run(farm: ChaosFarm, dice: random.Random) -> list[str]:
        job = farm.submit(some_chunks(dice))
        farm.wait_running(job)
        time.sleep(0.5 * dice.random())
        with farm.freezing(pids(farm)):
            time.sleep(LEASE + 1 + dice.random())
        farm.completed(job)
        return [job]

    return run


def first_of(service: str) -> Pids:
    return lambda farm: farm.pids(service)[:1]


def all_of(service: str) -> Pids:
    return lambda farm: farm.pids(service)


PARTS: dict[str, Pids] = {
    "slot": lambda farm: farm.slots()[:1],
    "slots": ChaosFarm.slots,
    "celery": ChaosFarm.celery_parents,
    "worker": first_of("worker"),
    "api": all_of("api"),
    "reconciler": first_of("reconciler"),
    "valkey": first_of("valkey"),
    "postgres": first_of("postgres"),
}


def _named(name: str, run: Run, *needs: str) -> Scenario:
    return Scenario(name, KIND, run, frozenset(needs))


def poisoned(farm: ChaosFarm, dice: random.Random) -> list[str]:
    """A slot loses the context of its card, as an error of CUDA says: its process ends, another takes its place."""
    farm.points.arm("mid-frame", Fault("poison"))
    job = farm.submit(some_chunks(dice))
    pid = farm.met("mid-frame")
    farm.wait("another process", lambda: pid not in farm.slots() and len(farm.slots()) > 1)
    farm.completed(job)
    return [job]


SCENARIOS = (
    *(_named(f"{act} at {point}", at_point(point, act)) for point in (*POINTS, *MERGE_POINTS) for act in ACTS),
    *(
        _named(f"{act} {role} at {step}", at_step(role, step, act))
        for role in ROLES
        for step in ("before-commit", "after-commit")
        for act in ACTS
    ),
    *(
        _named(f"{act} {role} at {step}", at_step(role, step, act))
        for role, step in ((RECONCILER, "after-send"), (API, "after-send"), (API, "other-after-upload"))
        for act in ACTS
    ),
    *(_named(f"kill {name}", signalled(pids, signal.SIGKILL)) for name, pids in PARTS.items()),
    *(_named(f"freeze {name}", frozen(pids)) for name, pids in PARTS.items() if name not in ("postgres", "slot")),
    _named("freeze postgres", frozen(all_of("postgres"))),
    _named("a card's context is lost", poisoned),
    _named("drain worker", signalled(first_of("worker"), signal.SIGTERM)),
)
