"""Jobs with catalogue models through a whole farm: an operator's folder of stand-ins, licences accepted by name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import av
import numpy as np
import pytest

from farm.api.schemas import JobIn
from farm.client import Client
from farm.errors import InputError, PolicyError
from farm.inference.spec import LicenceClass
from farm.local.farm import LocalFarm
from farm.media.probe import probe
from farm.media.reader import read_plate
from farm.provenance.label import Label
from farm.sample import IDENTITIES, Sample, Truth, generate
from farm.sample.evaluate import changed_outside, may_change
from farm.settings import load_settings
from tests.acceptance.conftest import Farm, frame_hashes
from tests.stand_ins import stand_in_catalogue

CLASSES = (LicenceClass.NON_COMMERCIAL, LicenceClass.COPYLEFT)


@pytest.fixture(scope="module")
def neural_farm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Farm]:
    home, folder = tmp_path_factory.mktemp("neural-farm"), tmp_path_factory.mktemp("catalogue")
    stand_in_catalogue(folder, home, ["inswapper-128", "gfpgan-1.4", "xseg-1"])
    settings = load_settings(
        home=home, url=None, lease_seconds=8, heartbeat_seconds=1, reconcile_seconds=0.5, drain_seconds=1,
        models_dir=folder, allowed_licences=tuple(str(name) for name in CLASSES),
    )  # fmt: skip
    with LocalFarm(home, settings) as local:
        assert local.state is not None
        client = Client(local.state.url)
        yield Farm(local, client)
        client.close()


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    return generate(tmp_path_factory.mktemp("clip"), seconds=1, size=(480, 270))


def test_a_neural_swap_with_a_restorer_is_the_same_as_one_chunk_and_as_many(
    neural_farm: Farm, clip: Sample, tmp_path: Path
) -> None:
    settings = {
        "swap": {"boost": 2, "weight": 0.6, "mask": {"areas": ["face"], "occluders": ["xseg-1"]}},
        "restore": {"mask": {"areas": ["face"]}},
    }
    jobs = [
        neural_farm.submit(clip.plate, recipe="swap-inswapper+gfpgan", chunk_seconds=seconds, settings=settings)
        for seconds in (60, 0.5)
    ]
    one, many = (neural_farm.download(neural_farm.finished(job), "ffv1", tmp_path / f"{job.id}.mkv") for job in jobs)
    assert frame_hashes(one) == frame_hashes(many)
    facts, truth = probe(clip.plate), Truth.load(clip.truth)
    label, size = Label(facts.video).box, (facts.video.width, facts.video.height)
    for before, after in zip(read_plate(clip.plate, facts), read_plate(one, probe(one)), strict=True):
        allowed = may_change(truth, before.index, [IDENTITIES[0]], size, also=[label])
        assert changed_outside(before, after, allowed) == 0
        changed = np.abs(after.planes[0].astype(int) - before.planes[0]) > 20
        changed[label[1] : label[3], label[0] : label[2]] = False
        assert changed.sum() > 300, f"frame {before.index} shows no new face"


def test_an_upscaled_film_is_twice_as_large_and_has_every_frame(neural_farm: Farm, tmp_path: Path) -> None:
    clip = generate(tmp_path, seconds=1, size=(160, 90))
    options = JobIn(recipe="upscale-span", deliverables=("h264",), chunk_seconds=0.5)
    job = neural_farm.finished(neural_farm.client.submit(options, plate=clip.plate))
    out = neural_farm.download(job, "h264", tmp_path / "large.mp4")
    facts = probe(out)
    assert (facts.video.width, facts.video.height) == (320, 180)
    assert [time for time, _ in frame_hashes(out)] == [time for time, _ in frame_hashes(clip.plate)]


def test_restoring_asks_for_no_identity_and_is_labelled(neural_farm: Farm, clip: Sample, tmp_path: Path) -> None:
    options = JobIn(recipe="restore-gfpgan", deliverables=("h264",), chunk_seconds=0.5)
    job = neural_farm.finished(neural_farm.client.submit(options, plate=clip.plate))
    out = neural_farm.download(job, "h264", tmp_path / "restored.mp4")
    assert [time for time, _ in frame_hashes(out)] == [time for time, _ in frame_hashes(clip.plate)]
    with av.open(str(out)) as container:
        assert '"Label":"1"' in container.metadata["AIGC"]


def test_what_may_not_be_used_or_is_not_there_is_refused_at_submission(neural_farm: Farm, clip: Sample) -> None:
    with pytest.raises(PolicyError, match=r"restoreformer-plus-plus.*farm models pull restoreformer-plus-plus"):
        neural_farm.submit(clip.plate, recipe="restore-restoreformer")
    with pytest.raises(PolicyError, match=r"'responsible-use', which this deployment does not allow"):
        neural_farm.submit(clip.plate, recipe="swap-hyperswap")
    with pytest.raises(InputError, match=r"processor 1 \(swap\).*'boots' is wrong"):
        neural_farm.submit(clip.plate, recipe="swap-inswapper", settings={"swap": {"boots": 2}})
