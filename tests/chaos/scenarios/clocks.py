"""Machines whose clocks are an hour off, either way: the database's clock is the only one that counts."""

from __future__ import annotations

import random
from collections.abc import Mapping

from tests.chaos.farm import MODELS
from tests.chaos.harness import SWAP, ChaosFarm
from tests.chaos.instrument import API, RECONCILER, WORKER
from tests.chaos.scenario import Run, Scenario

KIND = "clock"
HOUR = 3600
_SERVICES = {API: ("api", "api-b"), RECONCILER: ("reconciler", "reconciler-b"), WORKER: ("worker",)}


def wrong(shifts: Mapping[str, int]) -> Run:
    """The programs of some roles begin again with wrong clocks, and do a job that needs a permit; and then go back."""

    def run(farm: ChaosFarm, dice: random.Random) -> list[str]:
        services = [service for role in shifts for service in _SERVICES[role]]
        frames = farm.undisturbed(SWAP)
        for role, shift in shifts.items():
            farm.points.set_clock(role, str(shift))
        try:
            farm.begin_again(*services)
            job, plain = farm.submit_with_models(SWAP), farm.submit()
            farm.completed(job, frames)
            farm.completed(plain)
        finally:
            farm.points.disarm()
            farm.begin_again(*services)
        return [job, plain]

    return run


SCENARIOS = tuple(
    Scenario(
        " and ".join(f"clock of the {role} {shift:+d} s" for role, shift in shifts.items()),
        KIND, wrong(shifts), frozenset({MODELS}),
    )
    for shifts in (
        {WORKER: HOUR}, {WORKER: -HOUR}, {API: HOUR}, {API: -HOUR}, {RECONCILER: HOUR}, {RECONCILER: -HOUR},
        {API: HOUR, WORKER: -HOUR}, {RECONCILER: -HOUR, API: HOUR},
    )
)  # fmt: skip
