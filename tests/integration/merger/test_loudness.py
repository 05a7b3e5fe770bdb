"""Sound that is brought to a norm of loudness: measured over the whole film, then by one gain."""

from __future__ import annotations

import json
from pathlib import Path

import av
import pytest

from farm.errors import FarmError
from farm.media.loudness import LOUDNESS
from farm.merger.loudness import measure
from tests.integration.merger.workshop import Workshop, payloads, picture_times, sound_starts
from tests.media_factory import ffmpeg, picture

# Louder and softer by turns, so that there is a range; "quiet" leaves room for the gain, "peaks" does not.
_QUIET = "0.05*(0.4+0.6*lt(mod(t\\,2)\\,1))*sin(2*PI*440*t)"
_PEAKS = "0.02*sin(2*PI*440*t)+0.9*lt(mod(t\\,1)\\,0.003)*sin(2*PI*900*t)"


def plate(workshop: Workshop, suffix: str = ".mp4", *sounds: str) -> Path:
    inputs = [part for sound in sounds for part in ("-f", "lavfi", "-i", f"aevalsrc={sound}:s=48000:d=4")]
    maps = [part for number in range(len(sounds) + 1) for part in ("-map", str(number))]
    coded = ["-c:v", "libx264", "-preset", "veryfast", "-pix_fmt", "yuv420p", "-c:a", "aac", "-b:a", "192k"]
    return workshop.media.make_custom(suffix, *picture(seconds=4, rate="24"), *inputs, *maps, *coded)


def program_loudness(path: Path, number: int = 0) -> float:
    """LUFS by the ebur128 filter, which is another way than the one under test."""
    done = ffmpeg("-loglevel", "info", "-i", str(path), "-map", f"0:a:{number}", "-af", "ebur128", "-f", "null", "-")
    text = done.stderr if isinstance(done.stderr, str) else done.stderr.decode()
    return float(text.rsplit("I:", 1)[1].split()[0])


@pytest.mark.parametrize(
    ("name", "norm"), [("h264", "ebu-r128"), ("ffv1", "atsc-a85"), ("prores", "ebu-r128"), ("h264-fit", "ebu-r128")]
)
def test_the_sound_has_the_loudness_of_the_norm(workshop: Workshop, name: str, norm: str) -> None:
    source = plate(workshop, ".mp4", _QUIET)
    rendered = workshop.render(source, name, 2, loudness=norm, max_bytes=400_000)

    report = rendered.merge()

    assert report.verified.ok
    assert program_loudness(rendered.out) == pytest.approx(LOUDNESS[norm].integrated, abs=0.5)
    assert abs(program_loudness(source) - LOUDNESS[norm].integrated) > 2
    assert any("one gain of" in note and f"{norm}, version 1" in note for note in report.verified.notes)
    assert picture_times(rendered.out)[0] - picture_times(source)[0] == report.shift
    assert abs(sound_starts(rendered.out)[0] - sound_starts(source)[0] - report.shift) < 0.1


def test_one_gain_changes_nothing_but_the_volume(workshop: Workshop) -> None:
    """Without loss before and after, each sample is the plate's times the gain."""
    source = workshop.media.make_custom(
        ".mkv", "-i", str(plate(workshop, ".mp4", _QUIET)), "-c:v", "copy", "-c:a", "pcm_s24le"
    )
    rendered = workshop.render(source, "ffv1", 2, loudness="ebu-r128")
    rendered.merge()
    before, after = samples(source), samples(rendered.out)
    loud = [(a, b) for a, b in zip(before, after, strict=True) if abs(a) > 0.01]
    gains = [b / a for a, b in loud]
    assert max(gains) - min(gains) < 0.001 * max(gains)


def samples(path: Path) -> list[float]:
    with av.open(str(path)) as container:
        resampler = av.AudioResampler("dbl", "mono")
        return [
            float(value)
            for frame in container.decode(container.streams.audio[0])
            for part in resampler.resample(frame)
            for value in part.to_ndarray()[0]
        ]


def test_where_peaks_allow_no_more_the_sound_is_softer_and_that_is_said(workshop: Workshop) -> None:
    rendered = workshop.render(plate(workshop, ".mp4", _PEAKS), "ffv1", 2, loudness="ebu-r128")
    report = rendered.merge()
    found = measure(rendered.out, "matroska", 1)
    assert -1.3 <= found.true_peak <= -0.9
    assert found.integrated < -23.5
    assert any("instead of -23: its peaks allow no more" in note for note in report.verified.notes)


def test_every_sound_is_brought_to_the_norm_and_silence_stays(workshop: Workshop) -> None:
    source = plate(workshop, ".mp4", _QUIET, "0", "0.5*sin(2*PI*300*t)")
    rendered = workshop.render(source, "h264", 2, loudness="ebu-r128")
    rendered.merge()
    assert [program_loudness(rendered.out, number) for number in (0, 2)] == pytest.approx([-23, -23], abs=0.5)
    assert payloads(rendered.out, "audio")[1] == payloads(source, "audio")[1]


def test_without_a_norm_the_packets_are_copied(workshop: Workshop) -> None:
    source = plate(workshop, ".mp4", _QUIET)
    rendered = workshop.render(source, "h264", 2)
    rendered.merge()
    assert payloads(rendered.out, "audio") == payloads(source, "audio") != []


def test_a_sound_that_misses_the_norm_is_no_deliverable(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    rendered = workshop.render(plate(workshop, ".mp4", _QUIET), "h264", 2, loudness="ebu-r128")
    monkeypatch.setattr("farm.merger.mux.filter_for", lambda _norm, _measured: "volume=-3dB")
    with pytest.raises(FarmError, match=r"Audio stream 1 has -\d+\.\d LUFS instead of -23"):
        rendered.merge()
    assert not rendered.out.exists()


def test_a_path_with_strange_characters_can_take_the_measure(
    workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "a:b,c'd[e];f\\g%h"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    assert measure(plate(workshop, ".mp4", _QUIET), "mov", 1).integrated < -23
    assert json.dumps([path.name for path in folder.iterdir()]) == "[]"
