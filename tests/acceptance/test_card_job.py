"""Jobs by the card's path on its NumPy twin and by the processor's, each through a whole farm: both kinds of swap."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from farm.client import Client
from farm.db.engine import make_engine, make_sessions
from farm.inference.spec import LicenceClass
from farm.jobs.views import attempts
from farm.local.farm import LocalFarm
from farm.media.probe import probe
from farm.media.reader import read_plate
from farm.provenance.label import Label
from farm.sample import IDENTITIES, Sample, Truth, generate
from farm.sample.evaluate import changed_outside, may_change
from farm.settings import load_settings
from tests.acceptance.conftest import Farm
from tests.stand_ins import stand_in_catalogue

LEAST_DB = {"swap": 36.0, "swap-inswapper": 38.0}
"""The two read a face's points .1 to .5 pixels apart (see tests/integration/faces/test_card_pipeline.py)."""
RECIPES: dict[str, dict[str, Any]] = {"swap": {}, "swap-inswapper": {"swap": {"mask": {"areas": ["face"]}}}}
Made = dict[str, tuple[Path, dict[str, Any]]]
"""By recipe: the lossless deliverable, and what the first chunk's record says."""


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    return generate(tmp_path_factory.mktemp("clip"), seconds=0.5, size=(320, 180))


@pytest.fixture(scope="module")
def catalogue(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("catalogue")


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory, catalogue: Path, clip: Sample) -> dict[str, Made]:
    """The clip rendered by each back end with each recipe."""

    def render(back_end: str) -> Made:
        home = tmp_path_factory.mktemp(back_end)
        stand_in_catalogue(catalogue, home, ["inswapper-128"])
        settings = load_settings(
            home=home, url=None, lease_seconds=8, heartbeat_seconds=1, reconcile_seconds=0.5, drain_seconds=1,
            models_dir=catalogue, allowed_licences=(str(LicenceClass.NON_COMMERCIAL),), back_end=back_end,
        )  # fmt: skip
        with LocalFarm(home, settings) as local:
            assert local.state is not None
            client = Client(local.state.url)
            farm = Farm(local, client)
            asked = {name: farm.submit(clip.plate, recipe=name, settings=told) for name, told in RECIPES.items()}
            jobs = {name: farm.finished(job) for name, job in asked.items()}
            paths = {name: farm.download(job, "ffv1", home / f"{name}.mkv") for name, job in jobs.items()}
            client.close()
            return {name: (paths[name], record_of(local.state.database_url, job.id)) for name, job in jobs.items()}

    return {back_end: render(back_end) for back_end in ("twin", "cpu")}


def record_of(url: str, job_id: str) -> dict[str, Any]:
    """The environment that the newest render attempt reported."""
    engine = make_engine(url, application="a-test", pool_size=1)
    with make_sessions(engine)() as session:
        record = next(one.environment for one in attempts(session, job_id) if one.kind == "render")
    engine.dispose()
    return record


@pytest.mark.parametrize("recipe", RECIPES)
def test_both_back_ends_make_the_same_film_and_say_which_they_are(
    clip: Sample, rendered: dict[str, Made], recipe: str
) -> None:
    (twin, twin_record), (cpu, cpu_record) = rendered["twin"][recipe], rendered["cpu"][recipe]
    assert twin_record["back_end"] == "twin"
    assert twin_record["decoder"] == "cpu"
    assert {use["actual"] for use in twin_record["card_models"]} == {"CPUExecutionProvider"}
    assert (cpu_record["back_end"], cpu_record["back_end_why"]) == ("cpu", "FARM_BACK_END says so")
    facts, truth = probe(clip.plate), Truth.load(clip.truth)
    label, size = Label(facts.video).box, (facts.video.width, facts.video.height)
    errors, changed = [], 0
    plate = read_plate(clip.plate, facts)
    for before, a, b in zip(plate, read_plate(twin, probe(twin)), read_plate(cpu, probe(cpu)), strict=True):
        allowed = may_change(truth, before.index, [IDENTITIES[0]], size, also=[label])
        assert changed_outside(before, a, allowed) == 0
        for one, other, old in zip(a.planes, b.planes, before.planes, strict=True):
            touched = (one != old) | (other != old)
            errors.append((one.astype(float) - other)[touched])
        left, top, right, bottom = label
        assert np.array_equal(a.planes[0][top:bottom, left:right], b.planes[0][top:bottom, left:right])
        changed += int((np.abs(a.planes[0].astype(int) - before.planes[0]) > 10).sum())
    assert changed > 1000
    assert 10 * np.log10(255**2 / np.mean(np.concatenate(errors) ** 2)) > LEAST_DB[recipe]
