"""The sample plate as a file: exact time stamps, clicks on their frames, faces that the networks know."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av
import cv2
import numpy as np
import pytest

from farm.faces.detect import Detector
from farm.faces.embed import SAME_PERSON, Embedder
from farm.inference.catalogue import Catalogue
from farm.inference.session import Models
from farm.sample import IDENTITIES, Sample, Truth, generate, portrait_picture
from farm.sample.clip import SOUND_RATE
from farm.sample.evaluate import find_person


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    return generate(tmp_path_factory.mktemp("plate"), seconds=2, size=(320, 180))


def _pictures(path: Path) -> tuple[list[int], list[np.ndarray], Fraction]:
    with av.open(str(path)) as container:
        frames = list(container.decode(video=0))
        base = container.streams.video[0].time_base
    assert base is not None
    return [int(f.pts) for f in frames], [f.to_ndarray(format="bgr24") for f in frames], base


def test_frames_and_time_stamps_are_the_truths(small: Sample) -> None:
    truth = Truth.load(small.truth)
    pts, pictures, base = _pictures(small.plate)
    assert len(pictures) == len(truth) == 48
    assert [p * base for p in pts] == [int(p) * truth.time_base for p in truth.pts]
    assert pictures[0].shape == (180, 320, 3)


def test_clicks_sound_at_their_frames(small: Sample) -> None:
    truth = Truth.load(small.truth)
    with av.open(str(small.plate)) as container:
        parts = [(f.pts, f.to_ndarray()[0]) for f in container.decode(audio=0)]
    assert parts[0][0] == 0
    sound = np.concatenate([part for _, part in parts])
    for frame in truth.clicks:
        at = round(int(truth.pts[frame]) * truth.time_base * SOUND_RATE)
        before, after = sound[max(at - 480, 0) : at], sound[at : at + 240]
        # AAC spreads an attack by less than a frame of ten milliseconds
        assert np.abs(after).max() > 0.3
        assert len(before) == 0 or np.abs(before).max() < 0.5 * np.abs(after).max()


def test_a_variable_rate_skips_periods(tmp_path: Path) -> None:
    sample = generate(tmp_path, seconds=1, size=(160, 90), vfr=True, people=1)
    pts, _, base = _pictures(sample.plate)
    assert [p * base * 24 for p in pts] == [n for n in range(24) if n % 6 != 5]
    assert np.array_equal(Truth.load(sample.truth).pts, [n for n in range(24) if n % 6 != 5])


@pytest.mark.parametrize("codec", ["ffv1", "hevc10"])
def test_other_codecs_decode_to_the_same_frames(tmp_path: Path, codec: str) -> None:
    sample = generate(tmp_path, seconds=0.25, size=(160, 90), codec_name=codec, fps=Fraction(30000, 1001))
    _, pictures, _ = _pictures(sample.plate)
    assert len(pictures) == len(Truth.load(sample.truth)) == 7


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    one, other = (generate(tmp_path / name, seconds=0.5, size=(160, 90)) for name in ("a", "b"))
    assert one.plate.read_bytes() == other.plate.read_bytes()


def test_colours_come_back_by_the_tags_of_the_file(tmp_path: Path) -> None:
    from farm.sample.clip import ClipWriter, click_track, codec

    red = np.full((64, 64, 3), (40, 60, 200), np.uint8)
    path = tmp_path / "red.mkv"
    with ClipWriter(path, codec("ffv1"), size=(64, 64), fps=Fraction(24), time_base=Fraction(1, 24)) as writer:
        writer.write(red, 0)
        writer.finish(click_track([], Fraction(1, 24)))
    with av.open(str(path)) as container:
        frame = next(container.decode(video=0))
    assert (int(frame.colorspace), int(frame.color_range)) == (1, 1)
    luma = frame.to_ndarray()[0, 0]
    # BT.709, limited range: 16 + 219 (.2126 R + .7152 G + .0722 B) / 255
    assert abs(int(luma) - round(16 + 219 / 255 * (0.2126 * 200 + 0.7152 * 60 + 0.0722 * 40))) <= 1


def test_the_networks_find_and_know_both_people(tmp_path: Path) -> None:
    sample = generate(tmp_path, seconds=1, size=(640, 360), codec_name="ffv1")
    truth = Truth.load(sample.truth)
    with Models(Catalogue.load()) as models:
        detector, embedder = Detector(models.load("yunet")), Embedder(models.load("sface"))
        known = []
        for identity in IDENTITIES:
            portrait = cv2.imread(str(portrait_picture(identity)))
            known.append(embedder(portrait, detector(portrait)[0].five))
        _, pictures, _ = _pictures(sample.plate)
        for frame in (0, 8, 16, 23):
            faces = detector(pictures[frame])
            for person in range(2):
                face = find_person(truth, frame, person, faces)
                assert face is not None
                alike = [float(embedder(pictures[frame], face.five) @ other) for other in known]
                assert alike[person] > 0.5
                assert alike[1 - person] < SAME_PERSON
