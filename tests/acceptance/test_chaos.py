"""A short round of fault injection; `make chaos` is the long one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.chaos.__main__ import run_scenario
from tests.chaos.farm import chaos_farm
from tests.chaos.harness import ChaosFarm
from tests.chaos.scenario import Scenario
from tests.chaos.scenarios import SCENARIOS, SHORT

SEED = 7


@pytest.fixture(scope="module")
def hurt_farm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChaosFarm]:
    with chaos_farm(tmp_path_factory.mktemp("chaos"), models=False) as farm:
        yield farm


@pytest.mark.parametrize("scenario", [s for s in SCENARIOS if s.name in SHORT], ids=lambda s: s.name)
def test_nothing_is_lost(hurt_farm: ChaosFarm, scenario: Scenario) -> None:
    assert run_scenario(hurt_farm, scenario, SEED) == ""


def test_the_short_round_names_scenarios_that_exist() -> None:
    assert set(SHORT) <= {scenario.name for scenario in SCENARIOS}
