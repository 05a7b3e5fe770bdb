"""What is done to the farm. Each scenario hurts it once, and gives the jobs that must have ended well all the same."""

from tests.chaos.scenario import Scenario
from tests.chaos.scenarios import broker, clocks, database, network, people, plural, processes, storage

SCENARIOS: tuple[Scenario, ...] = (
    *processes.SCENARIOS, *database.SCENARIOS, *broker.SCENARIOS, *network.SCENARIOS, *storage.SCENARIOS,
    *clocks.SCENARIOS, *people.SCENARIOS, *plural.SCENARIOS,
)  # fmt: skip
SHORT = (
    "kill at mid-upload", "stop at after-upload", "kill reconciler at before-commit",
    "commits fail", "store fails", "wake-ups lost", "kill postgres", "cancel at merge-after-upload",
    "requeue while running", "result vanished",
)  # fmt: skip
"""One of each kind, for `make test`."""
