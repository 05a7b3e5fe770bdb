"""A network that parts between some of the farm's programs and what they stand on, and is whole again later."""

from __future__ import annotations

import random
import time

from tests.chaos.farm import S3
from tests.chaos.harness import LEASE, ChaosFarm
from tests.chaos.scenario import Run, Scenario, some_chunks

KIND = "network"
WORKER, OTHERS, BROKER, STORE = (
    "worker and database",
    "API, reconcilers and database",
    "everybody and the broker",
    "worker and S3",
)
"""Between whom there is a relay (`farm.relays`)."""


def parted(between: str, *, cut: bool) -> Run:
    """Longer than a lease; then what was held back arrives late, or with `cut` its lines are gone."""

    def run(farm: ChaosFarm, dice: random.Random) -> list[str]:
        job = farm.submit(some_chunks(dice))
        farm.wait_running(job)
        time.sleep(dice.random())
        farm.relays[between].part()
        time.sleep(LEASE + 2)
        farm.relays[between].heal(cut=cut)
        farm.completed(job)
        return [job]

    return run


SCENARIOS = tuple(
    Scenario(
        f"partition between {between}, {'lines cut' if cut else 'healed'}",
        KIND,
        parted(between, cut=cut),
        frozenset({S3} if between == STORE else {between}),
    )
    for between in (WORKER, OTHERS, BROKER, STORE)
    for cut in (False, True)
)
