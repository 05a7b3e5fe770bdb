"""Machines whose clocks are an hour off, either way: the database's clock is the only one that counts."""

from __future__ import annotations

import random
from collections.abc import Mapping

from tests.chaos.farm import CLOCK, SWAP
from tests.chaos.harness import ChaosFarm
from tests.chaos.instrument import API, RECONCILER
from tests.chaos.scenario import Run, Scenario

KIND = "clock"
WORKER = "worker"
_SERVICES = {API: ("api", "api-b"), RECONCILER: ("reconciler", "reconciler-b"), WORKER: ("worker",)}


def wrong(shifts: Mapping[str, str]) -> Run:
    """The programs of some roles begin again with wrong clocks, and do a job that needs a permit; and then go back."""

    def run(farm: ChaosFarm, dice: random.Random) -> list[str]:
        services = [service for role in shifts for service in _SERVICES[role]]
        first = _reference(farm)
        for role, shift in shifts.items():
            farm.points.set_clock(role, shift)
        try:
            farm.begin_again(*services)
            job, plain = farm.submit_swap(), farm.submit()
            farm.completed(job, farm.swap.reference if farm.swap else None)
            farm.completed(plain)
        finally:
            farm.points.disarm()
            farm.begin_again(*services)
        return [*first, job, plain]

    return run


def _reference(farm: ChaosFarm) -> list[str]:
    """The frames of an undisturbed swap, rendered when they are first wanted; the jobs that it took."""
    assert farm.swap is not None
    if farm.swap.reference:
        return []
    job = farm.submit_swap()
    farm.swap.reference = farm.film(job)
    return [job]


SCENARIOS = tuple(
    Scenario(
        " and ".join(f"clock of the {role} {shift}" for role, shift in shifts.items()),
        KIND, wrong(shifts), frozenset({CLOCK, SWAP}),
    )
    for shifts in (
        {WORKER: "+1h"}, {WORKER: "-1h"}, {API: "+1h"}, {API: "-1h"}, {RECONCILER: "+1h"}, {RECONCILER: "-1h"},
        {API: "+1h", WORKER: "-1h"}, {RECONCILER: "-1h", API: "+1h"},
    )
)  # fmt: skip
