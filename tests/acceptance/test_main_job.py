"""The main job on the sample plate, measured against the truth about every frame."""

from fractions import Fraction
from pathlib import Path

import av
import cv2
import numpy as np
import requests

from farm.api.schemas import JobIn
from farm.media.probe import probe
from farm.media.reader import read_plate
from farm.provenance.label import Label
from farm.sample import IDENTITIES, Sample, Truth
from farm.sample.evaluate import changed_outside, may_change
from tests.acceptance.conftest import Farm, frame_hashes, own_copy
from tests.acceptance.judging import judged


def packets(path: Path, kind: str) -> list[tuple[int | None, bytes]]:
    """pts and payload of each packet of the first stream of a kind."""
    with av.open(str(path)) as container:
        stream = next(s for s in container.streams if s.type == kind)
        return [(packet.pts, bytes(packet)) for packet in container.demux(stream) if packet.size]


def test_the_mapped_face_changes_and_nothing_else_does(farm: Farm, sample: Sample, tmp_path: Path) -> None:
    job = farm.finished(farm.submit(own_copy(sample.plate, tmp_path), chunk_seconds=60))
    out = farm.download(job, "ffv1", tmp_path / "out.mkv")
    truth = Truth.load(sample.truth)
    scores = judged(out, truth)
    assert scores[IDENTITIES[0]].changed >= 0.95 * scores[IDENTITIES[0]].shown
    facts = probe(sample.plate)
    size = (facts.video.width, facts.video.height)
    label = Label(facts.video).box
    for before, after in zip(read_plate(sample.plate, facts), read_plate(out, probe(out)), strict=True):
        allowed = may_change(truth, before.index, [IDENTITIES[0]], size, also=[label])
        assert changed_outside(before, after, allowed) == 0, f"frame {before.index} was changed elsewhere"


def test_one_chunk_and_many_give_the_same_frames(
    farm: Farm, sample: Sample, reference: list[tuple[Fraction, str]], tmp_path: Path
) -> None:
    job = farm.finished(farm.submit(own_copy(sample.plate, tmp_path), chunk_seconds=0.5))
    assert farm.client.job(job.id).progress.chunks_total == 10
    assert frame_hashes(farm.download(job, "ffv1", tmp_path / "many.mkv")) == reference


def test_the_deliverable_keeps_clock_and_sound(farm: Farm, sample: Sample, tmp_path: Path) -> None:
    job = farm.finished(farm.submit(sample.plate, deliverable="h264", chunk_seconds=2))
    out = farm.download(job, "h264", tmp_path / "out.mp4")
    plate_times = [time for time, _ in frame_hashes(sample.plate)]
    assert [time for time, _ in frame_hashes(out)] == plate_times
    assert packets(out, "audio") == packets(sample.plate, "audio")
    with av.open(str(out)) as container:
        assert '"Label":"1"' in container.metadata["AIGC"]


def test_plate_and_result_are_shown_while_a_chunk_renders(farm: Farm, sample: Sample, tmp_path: Path) -> None:
    assert farm.local.state is not None
    job = farm.submit(own_copy(sample.plate, tmp_path), chunk_seconds=60)
    url = f"{farm.local.state.url}/api/v1/jobs/{job.id}/chunks/0/preview"
    pictures = []
    while not farm.client.job(job.id).final:
        answer = requests.get(url, timeout=30)
        if answer.content:
            pictures.append(answer.content)
    farm.finished(job)
    assert requests.get(url, timeout=30).status_code == 204
    plate, result = np.array_split(cv2.imdecode(np.frombuffer(pictures[0], np.uint8), cv2.IMREAD_COLOR), 2, axis=1)
    assert plate.shape == (270, 482, 3)
    assert np.abs(plate[:, :478].astype(int) - result[:, -478:].astype(int)).max() > 60  # the face, and the label


def test_a_submission_that_is_repeated_is_one_job(farm: Farm, sample: Sample) -> None:
    client = farm.client
    options = JobIn(recipe="passthrough", deliverables=("ffv1",))
    first = client.submit(options, plate=sample.plate, idempotency_key="the-same")
    assert client.submit(options, plate=sample.plate, idempotency_key="the-same").id == first.id
    client.command(first.id, "cancel")
