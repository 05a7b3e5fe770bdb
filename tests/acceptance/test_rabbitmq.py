"""The farm with RabbitMQ in place of Valkey: wake-ups, commands, and a broker that dies and comes back.

`make test-rabbitmq` runs the whole acceptance tier with it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.chaos.__main__ import run_scenario
from tests.chaos.farm import RABBITMQ, chaos_farm
from tests.chaos.harness import ChaosFarm
from tests.chaos.scenarios import SCENARIOS
from tests.rabbitmq import MISSING, rabbitmq_program

pytestmark = pytest.mark.skipif(rabbitmq_program() is None, reason=MISSING)
WANTED = ("more wake-ups than work", "pause and resume", "RabbitMQ killed")


@pytest.fixture(scope="module")
def rabbit_farm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChaosFarm]:
    with chaos_farm(tmp_path_factory.mktemp("rabbit"), broker=RABBITMQ, models=False) as farm:
        yield farm


@pytest.mark.parametrize("name", WANTED)
def test_the_farm_works_with_rabbitmq(rabbit_farm: ChaosFarm, name: str) -> None:
    scenario = next(scenario for scenario in SCENARIOS if scenario.name == name)
    assert rabbit_farm.broker_url.startswith("amqp://")
    assert run_scenario(rabbit_farm, scenario, 7) == ""
