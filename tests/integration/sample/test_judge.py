"""The judge says yes to a perfect swap and no to none at all."""

from __future__ import annotations

from collections.abc import Iterator

import cv2
import numpy as np
import pytest

from farm.inference.catalogue import Catalogue
from farm.inference.session import Models
from farm.sample import IDENTITIES, Sample, Scene, Truth, generate, portrait_picture
from farm.sample.evaluate import Judge, read_pictures

SIZE = (480, 270)


@pytest.fixture(scope="module")
def plate(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    return generate(tmp_path_factory.mktemp("plate"), seconds=1, size=SIZE, codec_name="ffv1")


@pytest.fixture(scope="module")
def models() -> Iterator[Models]:
    with Models(Catalogue.load()) as loaded:
        yield loaded


def _picture(identity: str) -> np.ndarray:
    return cv2.imread(str(portrait_picture(identity)))


def test_an_untouched_plate_is_no_swap(plate: Sample, models: Models) -> None:
    judge = Judge(models, Truth.load(plate.truth), {"grace_hopper": _picture("astronaut")})
    for frame, (_, picture) in enumerate(read_pictures(plate.plate)):
        if frame % 6 == 0:
            judge.see(frame, picture)
    report = judge.report()
    assert report["grace_hopper"].shown == 4
    assert report["grace_hopper"].as_wanted == 0
    assert report["grace_hopper"].failed == [0, 6, 12, 18]
    assert report["astronaut"].as_wanted == 1
    assert report["astronaut"].failed == []


def test_the_same_moments_played_by_the_other_person_are_a_perfect_swap(plate: Sample, models: Models) -> None:
    truth = Truth.load(plate.truth)
    swapped = Scene(seconds=1, size=SIZE, identities=IDENTITIES[::-1], events=False)
    wanted = {IDENTITIES[0]: _picture(IDENTITIES[1]), IDENTITIES[1]: _picture(IDENTITIES[0])}
    judge = Judge(models, truth, wanted)
    for frame in range(0, 24, 6):
        judge.see(frame, swapped.draw(frame / 24, frame)[0])
    for score in judge.report().values():
        assert score.as_wanted == 1
        assert min(score.to_wanted) > 0.5
