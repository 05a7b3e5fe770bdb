"""Strange and damaged plates as jobs: what a person is told, and when."""

from __future__ import annotations

from pathlib import Path

import pytest

from farm.api.schemas import IdentityIn, JobIn, JobOut
from farm.errors import FarmError
from farm.media.deliverables import names
from farm.media.probe import probe
from farm.sample import IDENTITIES, Sample, portrait_picture
from tests.acceptance.conftest import Farm
from tests.integration.media.truth import plain_decode
from tests.media_factory import MediaFactory, ffmpeg


@pytest.fixture(scope="module")
def media(tmp_path_factory: pytest.TempPathFactory) -> MediaFactory:
    return MediaFactory(tmp_path_factory.mktemp("media"))


def passed_through(farm: Farm, plate: Path, *deliverables: str, **options: object) -> JobOut:
    given = {"recipe": "passthrough", "deliverables": deliverables, "chunk_seconds": 1} | options
    return farm.client.submit(JobIn.model_validate(given), plate=plate)


def ended(farm: Farm, job: JobOut) -> JobOut:
    for _ in farm.client.events(job.id):
        pass
    return farm.client.job(job.id)


def test_frames_that_do_not_decode_repeat_the_one_before_and_are_listed(
    farm: Farm, media: MediaFactory, tmp_path: Path
) -> None:
    plate = media.make("corrupt_hevc.mp4")
    job = farm.finished(passed_through(farm, plate, "ffv1"))
    told = {warning.code: warning.text for warning in job.warnings}
    assert told["repeated"].startswith("Undecodable: 8 frames; the one before is repeated instead: 40 to 43 (at 1.")
    assert told["repeated"] in job.deliverables[0].verified["notes"]
    lost = {40, 41, 42, 43, 45, 46, 47, 76}
    out = [crc for _, crc in plain_decode(farm.download(job, "ffv1", tmp_path / "out.mkv"))]
    assert [crc for frame, crc in enumerate(out) if frame not in lost] == [
        crc for _, crc in plain_decode(plate, threads=1)
    ]
    assert all(out[frame] == out[frame - 1] for frame in lost)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("h264_resized.ts", "frame 24, at 2.400 s: The picture becomes 320×180"),
        ("h264_stepped.ts", "frame 48: The plate's clock starts anew"),
        ("broken_late.apng", ", at 8.980 s."),
    ],
)
def test_a_plate_that_cannot_be_one_film_fails_while_planned(
    farm: Farm, media: MediaFactory, name: str, reason: str
) -> None:
    job = ended(farm, passed_through(farm, media.make(name), "ffv1"))
    assert (job.state, job.error_class) == ("failed", "input")
    assert reason in job.reason


@pytest.mark.parametrize(
    ("name", "reason"),
    [("truncated.mp4", "moov"), ("broken.apng", r"cannot be read after byte [1-9]\d+, at 0\.380 s")],
)
def test_a_plate_that_cannot_be_read_makes_no_job(farm: Farm, media: MediaFactory, name: str, reason: str) -> None:
    with pytest.raises(FarmError, match=reason):
        passed_through(farm, media.make(name), "ffv1")


def test_an_edit_list_that_players_follow_otherwise_is_said_by_the_job(
    farm: Farm, media: MediaFactory, tmp_path: Path
) -> None:
    plate = media.make("edit_fast.mp4")
    job = farm.finished(passed_through(farm, plate, "ffv1"))
    assert any(w.code == "edit_speed" and "at 2 times its speed" in w.text for w in job.warnings)
    out = plain_decode(farm.download(job, "ffv1", tmp_path / "out.mkv"))
    assert [crc for _, crc in out] == [crc for _, crc in plain_decode(plate)]


def test_what_a_deliverable_loses_is_said_when_the_job_is_made(farm: Farm, media: MediaFactory) -> None:
    job = passed_through(farm, media.make("hevc_dolby_vision.mp4"), "hevc10")
    assert any(w.code == "loss" and "Dolby Vision metadata is left out" in w.text for w in job.warnings)
    assert "dolby_vision" in {w.code for w in job.warnings}
    farm.client.command(job.id, "cancel", "Nobody needs it.")
    ended(farm, job)


def test_sound_is_brought_to_the_loudness_that_the_job_asks_for(farm: Farm, media: MediaFactory) -> None:
    job = farm.finished(passed_through(farm, media.make("h264_audio.mp4"), "h264", loudness="ebu-r128"))
    assert any("becomes aac of -23 LUFS (ebu-r128, version 1)" in warning.text for warning in job.warnings)
    notes = job.deliverables[0].verified["notes"]
    assert "Audio stream 1 has -23.0 LUFS (ebu-r128, version 1; it had" in notes


def test_one_render_gives_every_deliverable(farm: Farm, sample: Sample, tmp_path: Path) -> None:
    options = JobIn(
        recipe="swap",
        deliverables=tuple(names()),
        max_bytes=400_000,
        chunk_seconds=3,
        identities=(IdentityIn(),),
    )
    pictures = {"identity": [portrait_picture(IDENTITIES[1])]}
    plate = tmp_path / "second.mp4"
    ffmpeg("-i", str(sample.plate), "-t", "1", "-c", "copy", str(plate))
    job = farm.finished(farm.client.submit(options, plate=plate, pictures=pictures))
    frames = probe(plate).frames
    made = {item.name: item for item in job.deliverables}
    assert (
        set(made)
        == set(names())
        >= {
            *(
                "h264",
                "hevc10",
                "av1",
                "prores",
                "prores4444",
                "dnxhr",
                "ffv1",
                "match",
                "review",
                "matte",
                "face-only",
            ),
            "h264-fit",
        }
    )
    assert all(item.verified["frames"] == f"{frames} of {frames} decoded" for item in made.values())
    assert made["h264-fit"].size <= 400_000
    assert made["h264-fit"].verified["encoder"] == "libx264"
    assert probe(farm.download(job, "face-only", tmp_path / "face.mov")).video.sample_format.startswith("yuva444p")
