"""The truth file is read back as written, and nothing else is taken for one."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from farm.errors import InputError
from farm.sample.clip import SOUND_RATE, click_track, codec
from farm.sample.generator import Scene, generate
from farm.sample.truth import Truth


def test_truth_survives_the_file(tmp_path: Path) -> None:
    shape = (3, 2)
    truth = Truth(
        scene={"identities": ["a", "b"], "time_base": "1/24"},
        pts=np.arange(3, dtype=np.int64),
        clicks=np.array([0], np.int64),
        visible=np.ones(shape, np.bool_),
        occluded=np.zeros(shape, np.float32),
        inside=np.ones(shape, np.float32),
        pose=np.zeros((*shape, 3), np.float32),
        landmarks=np.zeros((*shape, 478, 2), np.float32),
        box=np.zeros((*shape, 4), np.float32),
        lids=np.zeros(shape, np.float32),
        jaw=np.zeros(shape, np.float32),
        gaze=np.full(shape, 0.5, np.float32),
    )
    truth.save(tmp_path / "t.npz")
    again = Truth.load(tmp_path / "t.npz")
    assert again.scene == truth.scene
    assert np.array_equal(again.gaze, truth.gaze)
    assert again.landmarks.shape == (3, 2, 478, 2)
    assert again.time_base == Fraction(1, 24)
    assert again.person("b") == 1
    with pytest.raises(InputError, match="does not show 'c'"):
        again.person("c")


def test_another_file_is_not_a_truth(tmp_path: Path) -> None:
    (tmp_path / "t.npz").write_bytes(b"no")
    with pytest.raises(InputError, match="not the truth"):
        Truth.load(tmp_path / "t.npz")


def test_clicks_begin_at_their_sample() -> None:
    sound = click_track([Fraction(0), Fraction(1, 3)], Fraction(1))
    assert len(sound) == SOUND_RATE
    loud = np.flatnonzero(np.abs(sound) > 0.5)
    assert loud[0] == 0
    assert loud[loud > SOUND_RATE // 6][0] == SOUND_RATE // 3


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"size": (321, 180)}, "even"),
        ({"people": 3}, "people"),
        ({"seconds": 0.001}, "at least one frame"),
        ({"codec_name": "mjpeg"}, "no sample codec"),
    ],
)
def test_impossible_plates_are_refused_before_anything_is_written(tmp_path: Path, arguments: dict, says: str) -> None:
    with pytest.raises(InputError, match=says):
        generate(tmp_path / "out", **{"seconds": 1, **arguments})
    assert not (tmp_path / "out").exists()


def test_codecs_name_their_container() -> None:
    assert codec("ffv1").suffix == ".mkv"


def test_the_nearer_person_covers_the_farther_one() -> None:
    scene = Scene(seconds=24, size=(160, 90), seed=7)
    seen = [scene.draw(n / 8, n)[1] for n in range(0, 192, 4)]
    assert all(first.occluded == 0 for first, _ in seen)
    assert max(second.occluded for _, second in seen) > 0.9
    assert any(not first.visible and first.inside == 0 for first, _ in seen)


def test_a_moment_is_drawn_the_same_every_time() -> None:
    one, other = (Scene(seconds=4, size=(160, 90), seed=3) for _ in range(2))
    first, _ = one.draw(1.5, 36)
    one.draw(0.5, 12)
    assert np.array_equal(first, one.draw(1.5, 36)[0])
    assert np.array_equal(first, other.draw(1.5, 36)[0])
    assert not np.array_equal(first, Scene(seconds=4, size=(160, 90), seed=4).draw(1.5, 36)[0])
