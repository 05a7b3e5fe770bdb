"""What the networks of a recipe are shown of a plate, and what the recipe becomes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from farm.errors import RecipeError
from farm.faces.calibration import MOST_SAMPLES, Calibration, error_of, in_full, measurable, tolerated, with_precision
from farm.faces.identity import PreparedIdentity
from farm.faces.neural_contract import check_contract
from farm.faces.processors import settings_of
from farm.faces.views import Analyst
from farm.inference.catalogue import Catalogue
from farm.inference.session import Models
from farm.inference.spec import LicenceClass
from farm.recipe import Recipe, preset, tuned
from tests.integration.faces.conftest import Plate
from tests.stand_ins import convolved, stand_in_catalogue


def asked(precision: str) -> Recipe:
    half = {"precision": precision}
    return tuned(preset("swap-inswapper+gfpgan"), {"swap": {**half, "boost": 2}, "restore": half})


@pytest.fixture(scope="module")
def stand_ins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Models]:
    folder: Path = tmp_path_factory.mktemp("calibration")
    names = ["inswapper-128", "gfpgan-1.4"]
    half = {"gfpgan-1.4": convolved("gfpgan-1.4")}
    deployment = stand_in_catalogue(folder / "models", folder / "home", names, half=half)
    with deployment.open_models(providers=["CPUExecutionProvider"], allowed_licences=list(LicenceClass)) as opened:
        yield opened


def test_networks_are_shown_the_plates_crops_and_the_plate_stays(
    plate: Plate, people: dict[str, PreparedIdentity], stand_ins: Models
) -> None:
    recipe, models = asked("int8"), stand_ins
    assert measurable(recipe, models) == {"inswapper-128": "int8", "gfpgan-1.4": "int8"}
    shown = Calibration(recipe, {"a": people["astronaut"]}, models, measurable(recipe, models))
    analyst = Analyst(models, plate.facts, hands=False)
    for frame in plate.frames(0, 30):
        if frame.index % 10 == 0:
            before = [p.tobytes() for p in frame.planes]
            shown.see(analyst.look(frame, embed=True))
            assert [p.tobytes() for p in frame.planes] == before
    swaps, restores = (shown.recorders[name].samples for name in ("inswapper-128", "gfpgan-1.4"))
    assert len(restores) == 6  # two faces in each of three frames
    assert len(swaps) == min(MOST_SAMPLES, 4 * 6)  # four phases of pixel boost each
    assert {key: value.shape for key, value in swaps[0].items()} == {"source": (1, 512), "target": (1, 3, 128, 128)}
    full, half = (models.load("gfpgan-1.4", precision) for precision in ("fp32", "fp16"))
    assert error_of(full, full, restores) == 0
    assert 0 < error_of(full, half, restores) < 1e-5


def test_a_recipe_in_int8_names_one_calibration_and_prepares_in_full() -> None:
    recipe = with_precision(asked("int8"), {"inswapper-128": "int8-1", "gfpgan-1.4": "int8-2"})
    assert [processor.settings["precision"] for processor in recipe.processors] == ["int8-1", "int8-2"]
    assert {processor.settings["precision"] for processor in in_full(asked("int8")).processors} == {"fp32"}
    assert with_precision(asked("fp16"), {}) == asked("fp16")
    loose = tuned(asked("int8"), {"swap": {"int8_error": 0.1}})
    assert tolerated(loose) == {"inswapper-128": 0.1, "gfpgan-1.4": 0.02}


@pytest.mark.parametrize(
    ("recipe", "settings"),
    [
        ("swap-dfm", {"swap": {"precision": "int8"}}),
        ("upscale-span", {"upscale": {"precision": "int8"}}),
        ("restore-frame", {"restore": {"precision": "int8"}}),
    ],
)
def test_what_is_not_made_in_int8_is_refused_by_name(recipe: str, settings: dict[str, dict[str, str]]) -> None:
    (processor,) = tuned(preset(recipe), settings).processors
    with pytest.raises(RecipeError, match="It is not made in int8"):
        check_contract(Catalogue.load().spec(processor.model), settings_of(processor))
