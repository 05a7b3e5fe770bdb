"""Jobs with catalogue models through a whole farm: an operator's folder of stand-ins, licences accepted by name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import av
import cv2
import numpy as np
import pytest

from farm.api.schemas import JobIn
from farm.client import Client
from farm.errors import InputError, PolicyError
from farm.inference.catalogue import Catalogue
from farm.inference.spec import LicenceClass
from farm.local.farm import LocalFarm
from farm.media.probe import probe
from farm.media.reader import read_plate
from farm.provenance.label import Label
from farm.sample import IDENTITIES, Sample, Truth, generate, portrait_picture
from farm.sample.evaluate import changed_outside, may_change
from farm.settings import load_settings
from tests.acceptance.api.conftest import FarmCommand
from tests.acceptance.conftest import Farm, frame_hashes
from tests.integration.faces.test_detectors import DETECTORS, FACE_BOX
from tests.media_tools import ffmpeg
from tests.stand_ins import convolved, spoilt, stand_in_catalogue

CLASSES = (LicenceClass.NON_COMMERCIAL, LicenceClass.COPYLEFT)


@pytest.fixture(scope="module")
def neural_farm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Farm]:
    home, folder = tmp_path_factory.mktemp("neural-farm"), tmp_path_factory.mktemp("catalogue")
    half = {"blendswap-256": spoilt("blendswap-256"), "codeformer": spoilt("codeformer", 0.0)}
    names = ["inswapper-128", "gfpgan-1.4", "xseg-1", "xseg-2", *half, *DETECTORS]
    full = {"inswapper-128": convolved("inswapper-128")}
    stand_in_catalogue(folder, home, names, half=half, full=full).library.remove("codeformer", "fp32")
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


def test_what_half_precision_spoils_is_made_again_or_left_and_the_report_says_in_which_frames(
    neural_farm: Farm, clip: Sample
) -> None:
    """One network gives no numbers in half precision, another a flat picture, and of that fp32 is not here."""
    job = neural_farm.finished(neural_farm.submit(clip.plate, recipe="swap-blendswap", chunk_seconds=0.5))
    report = neural_farm.client.operate("GET", f"/jobs/{job.id}/report")
    (changed,) = (person for person in report["people"] if person["identity"])
    assert changed["changed"] == changed["found"] == 24
    assert [(stretch["first"], stretch["last"], stretch["end"]) for stretch in report["redone"]] == [
        (0, 23, "00:00:00.958")
    ]

    job = neural_farm.finished(neural_farm.submit(clip.plate, recipe="swap+codeformer", chunk_seconds=60))
    report = neural_farm.client.operate("GET", f"/jobs/{job.id}/report")
    (left,) = (person for person in report["people"] if person["identity"])
    assert [(span["outcome"], span["first"], span["last"]) for span in left["spans"]] == [
        ("not restored: the network gave no usable picture", 0, 23)
    ]


def test_a_network_in_int8_is_calibrated_on_the_plate_measured_and_the_same_for_every_chunk(
    neural_farm: Farm, clip: Sample, tmp_path: Path
) -> None:
    client, settings = neural_farm.client, {"swap": {"precision": "int8"}}
    jobs = [
        neural_farm.submit(clip.plate, recipe="swap-inswapper", settings=settings, chunk_seconds=seconds)
        for seconds in (60, 0.5)
    ]
    one, many = (neural_farm.download(neural_farm.finished(job), "ffv1", tmp_path / f"{job.id}.mkv") for job in jobs)
    assert frame_hashes(one) == frame_hashes(many)
    attempts = client.operate("GET", f"/jobs/{jobs[1].id}/attempts")["items"]
    uses = [use for a in attempts for use in a["environment"].get("models", []) if use["name"] == "inswapper-128"]
    used = {use["sha256"]: use["error"] for use in uses if use["precision"].startswith("int8-")}
    assert len(used) == 1
    (error,) = used.values()
    assert 0 < error < 0.02
    notes = [event.reason for event in client.events(jobs[1].id) if event.kind == "job.cast"]
    assert notes == [
        f"inswapper-128 in int8 is off by {error:.4f} of what its answers span, on {notes[0].split()[-2]} crops."
    ]

    strict = {"swap": {"precision": "int8", "int8_error": 1e-6}}
    job = neural_farm.submit(clip.plate, recipe="swap-inswapper", settings=strict)
    for _ in client.events(job.id):
        pass
    refused = client.job(job.id)
    assert (refused.state, "model inswapper-128: In int8 its answers are off by" in refused.reason) == ("failed", True)
    with pytest.raises(InputError, match="this recipe puts in nobody"):
        client.submit(
            JobIn(recipe="restore-gfpgan", settings={"restore": {"precision": "int8"}}, deliverables=("ffv1",)),
            plate=clip.plate,
        )


def test_weights_that_another_machine_shared_are_taken_from_the_store(neural_farm: Farm, clip: Sample) -> None:
    home, models_dir = neural_farm.local.home.path, str(neural_farm.local.settings.models_dir)
    farm = FarmCommand(home)
    allowed = {"FARM_MODELS_DIR": models_dir, "FARM_ALLOWED_LICENCES": ",".join(CLASSES)}
    shared = farm("models", "pull", "xseg-2", "--share", **allowed)
    assert (shared.returncode, "xseg-2: shared" in shared.stderr) == (0, True), shared.stderr
    again = farm("models", "pull", "xseg-2", "--share", **allowed)
    assert "xseg-2: in the store already" in again.stderr
    (weights,) = (home / "models" / "weights").glob(f"{Catalogue.load(Path(models_dir)).spec('xseg-2').file().sha256}*")
    assert farm("models", "remove", "xseg-2", **allowed).returncode == 0
    assert not weights.exists()

    settings = {"swap": {"mask": {"occluders": ["xseg-2"]}}}
    neural_farm.finished(neural_farm.submit(clip.plate, recipe="swap-inswapper", settings=settings, chunk_seconds=60))
    assert weights.exists()


@pytest.mark.parametrize("name", DETECTORS)
def test_a_catalogue_detector_serves_a_whole_job(neural_farm: Farm, name: str, tmp_path: Path) -> None:
    """Its stand-in sees one face, always in the same place: there the portrait is put."""
    x0, y0, x1, y1 = FACE_BOX
    still = np.full((640, 640, 3), 90, np.uint8)
    portrait = cv2.imread(str(portrait_picture(IDENTITIES[0])))
    assert portrait is not None
    scale = (x1 - x0) / 109
    turn = np.array([[scale, 0, (x0 + x1) / 2 - scale * 224], [0, scale, (y0 + y1) / 2 - scale * 118]])
    still = cv2.warpAffine(portrait, turn, (640, 640), borderMode=cv2.BORDER_REPLICATE)
    plate = tmp_path / "still.mp4"
    ffmpeg(
        *["-f", "rawvideo", "-pix_fmt", "bgr24", "-s", "640x640", "-r", "24", "-i", "pipe:0"],
        *["-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", str(plate)],
        stdin=still.tobytes() * 3,
    )
    job = neural_farm.finished(
        neural_farm.submit(plate, recipe="swap", settings={"detect": {"model": name}}, chunk_seconds=60)
    )
    (person,) = neural_farm.client.operate("GET", f"/jobs/{job.id}/report")["people"]
    assert (person["found"], person["changed"]) == (3, 3)
    used = {
        use["name"]
        for a in neural_farm.client.operate("GET", f"/jobs/{job.id}/attempts")["items"]
        for use in a["environment"].get("models", [])
    }
    assert used & set(DETECTORS) == {name}


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
