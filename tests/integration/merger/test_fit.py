"""Deliverables of a wanted size: one encode of the whole from mezzanine chunks, in two passes."""

from __future__ import annotations

from pathlib import Path

import pytest

from farm.errors import FarmError, RecipeError
from farm.media.encoders import EncoderPlan
from farm.media.probe import probe
from farm.merger.whole import WholeEncode
from tests.integration.merger.workshop import Rendered, Workshop, payloads, picture_times, vmaf
from tests.media_factory import ffmpeg


@pytest.fixture
def plate(workshop: Workshop) -> Path:
    return workshop.media.make_custom(
        ".mp4",
        *["-f", "lavfi", "-i", "mandelbrot=size=320x180:rate=24:start_scale=0.5", "-f", "lavfi", "-i", "sine"],
        *["-t", "4", "-c:v", "libx264", "-preset", "veryfast", "-crf", "10", "-pix_fmt", "yuv420p", "-c:a", "aac"],
    )


@pytest.mark.parametrize("max_bytes", [400_000, 140_000])
def test_the_file_uses_its_size_and_does_not_exceed_it(workshop: Workshop, plate: Path, max_bytes: int) -> None:
    rendered = workshop.render(plate, "h264-fit", 4, max_bytes=max_bytes)
    heard: list[tuple[int, str]] = []

    report = rendered.merge(progress=lambda frames, note: heard.append((frames, note)))

    assert 0.85 * max_bytes < rendered.out.stat().st_size <= max_bytes
    assert report.verified.ok
    assert (report.encoder, report.chunks, report.frames) == ("libx264", 4, 96)
    assert picture_times(rendered.out) == picture_times(plate)
    assert payloads(rendered.out, "audio") == payloads(plate, "audio") != []
    assert heard[0] == (1, "encoding the whole, first pass")
    assert heard[-1] == (96, "encoding the whole, second pass")
    assert list(rendered.out.parent.glob("tmp*")) == []


def test_quality_is_that_of_a_two_pass_encode_of_the_plate(workshop: Workshop, plate: Path) -> None:
    """Within one VMAF point of the ffmpeg program at the same bit rate."""
    rendered = workshop.render(plate, "h264-fit", 4, max_bytes=250_000)
    rendered.merge()
    bits = str(probe(rendered.out).video.bit_rate)
    stats, single = str(workshop.folder / "stats"), workshop.folder / "single.mp4"
    same = ["-c:v", "libx264", "-preset", "medium", "-profile:v", "high", "-b:v", bits, "-passlogfile", stats, "-an"]
    ffmpeg("-i", str(plate), *same, "-g", "96", "-pass", "1", "-f", "null", "-")
    ffmpeg("-i", str(plate), *same, "-g", "96", "-pass", "2", str(single))
    log = workshop.folder / "vmaf.json"
    assert abs(vmaf(rendered.out, plate, log) - vmaf(single, plate, log)) <= 1


def test_a_size_that_cannot_hold_the_sound_is_refused_in_words(workshop: Workshop, plate: Path) -> None:
    rendered = workshop.render(plate, "h264-fit", 2, max_bytes=30_000)
    with pytest.raises(RecipeError, match=r"30,000 bytes are too few for 4\.0 s: sound and tables alone take"):
        rendered.merge()
    assert not rendered.out.exists()


def test_a_mezzanine_that_is_not_what_was_rendered_is_named(workshop: Workshop, plate: Path) -> None:
    rendered = workshop.render(plate, "h264-fit", 2, max_bytes=300_000)
    other = rendered.chunks[1].facts.model_copy(update={"frames_sha256": "0" * 64})
    rendered.chunks[1] = rendered.chunks[1]._replace(facts=other)
    with pytest.raises(FarmError, match=r"frames 48 to 95.*samples are not those"):
        rendered.merge()


def test_a_deliverable_of_a_size_needs_one(workshop: Workshop, plate: Path) -> None:
    with pytest.raises(RecipeError, match="none was given"):
        workshop.render(plate, "h264-fit")


def test_a_card_encodes_the_whole_in_one_go(workshop: Workshop, plate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The way that NVENC takes, gone with the encoder of the processor; a card that does not work is passed over."""
    rendered = _as_if_on_a_card(workshop.render(plate, "h264-fit", 2, max_bytes=300_000))
    runs: list[int] = []
    real = WholeEncode._planned

    def counted(encode: WholeEncode, bits: int, number: int = 0) -> EncoderPlan:
        runs.append(number)
        return real(encode, bits, number)

    monkeypatch.setattr(WholeEncode, "_planned", counted)

    report = rendered.merge()

    assert report.verified.ok
    assert set(runs) == {0}
    assert rendered.out.stat().st_size <= 300_000


def _as_if_on_a_card(rendered: Rendered) -> Rendered:
    (processor,) = rendered.plan.finals
    card = processor.model_copy(update={"hardware": True})
    broken = card.model_copy(update={"encoder": "h264_nvenc", "options": {"gpu": "99"}})
    rendered.plan = rendered.plan.model_copy(update={"finals": (broken, card, processor)})
    digest = rendered.plan.digest()
    rendered.chunks = [
        chunk._replace(facts=chunk.facts.model_copy(update={"plan_digest": digest})) for chunk in rendered.chunks
    ]
    return rendered
