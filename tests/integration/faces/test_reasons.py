"""Why a face was left as it is: each reason, reached by a picture that deserves it, through the pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from farm.faces.cast import build_cast, observe
from farm.faces.identity import PreparedIdentity
from farm.faces.mapping import MappingRequest, resolve
from farm.faces.neural_identity import with_sources
from farm.faces.pipeline import FacePipeline
from farm.faces.report import Outcome, summarise
from farm.faces.views import Analyst
from farm.inference.session import Models
from farm.inference.spec import LicenceClass
from farm.recipe import preset, tuned
from farm.sample import portrait_picture
from farm.sample.bust import Bust, Pose
from farm.sample.expression import Expression
from farm.sample.portrait import load_portrait
from tests.integration.faces.test_detectors import frame_of
from tests.stand_ins import stand_in_catalogue
from tests.unit.faces.people import facts

NEW = "grace_hopper"
FACE = 109.0
"""Pixels of the portrait's face."""


@pytest.fixture(scope="module")
def stand_ins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Models]:
    folder: Path = tmp_path_factory.mktemp("reasons")
    deployment = stand_in_catalogue(folder / "models", folder / "home", ["inswapper-128", "xseg-1"])
    with deployment.open_models(providers=["CPUExecutionProvider"], allowed_licences=list(LicenceClass)) as opened:
        yield opened


def portrait() -> NDArray[np.uint8]:
    picture = cv2.imread(str(portrait_picture("astronaut")))
    assert picture is not None
    return np.asarray(picture[:512, :512], np.uint8)


def small() -> NDArray[np.uint8]:
    """A face of 22 pixels."""
    reduced = cv2.resize(portrait(), None, fx=0.2, fy=0.2, interpolation=cv2.INTER_AREA)
    return np.asarray(cv2.copyMakeBorder(reduced[:102, :102], 50, 50, 50, 50, cv2.BORDER_REPLICATE), np.uint8)


def blurred(share: float) -> NDArray[np.uint8]:
    """Out of focus by a share of the face."""
    return np.asarray(cv2.GaussianBlur(portrait(), (0, 0), share * FACE), np.uint8)


def sideways() -> NDArray[np.uint8]:
    picture = np.full((360, 360, 3), 90, np.uint8)
    Bust(load_portrait("astronaut"), 1.0).draw(picture, Pose(180, 180, 0.9, yaw=38.0), Expression(), np.zeros(3))
    return picture


def covered() -> NDArray[np.uint8]:
    """Without its first channel, which is the mask of the occluder's stand-in: nothing of the face is to be seen."""
    picture = portrait()
    picture[..., 0] = 0
    return picture


def somebody_else() -> NDArray[np.uint8]:
    """Not who was cast."""
    picture = cv2.imread(str(portrait_picture(NEW)))
    assert picture is not None
    return np.asarray(picture[:512, :512], np.uint8)


REASONS = {
    "too small": (small, "swap-inswapper", {}, Outcome.TOO_SMALL),
    "too small, mesh-warp": (small, "swap", {"smallest": 32}, Outcome.TOO_SMALL),
    "too blurred": (lambda: blurred(0.06), "swap", {}, Outcome.TOO_BLURRED),
    "too blurred, neural": (lambda: blurred(0.06), "swap-inswapper", {}, Outcome.TOO_BLURRED),
    "blurred, but asked for": (lambda: blurred(0.06), "swap", {"min_sharpness": 0}, Outcome.SWAPPED),
    "too sideways": (sideways, "swap", {"max_yaw": 24}, Outcome.TOO_SIDEWAYS),
    "too sideways, neural": (sideways, "swap-inswapper", {"max_yaw": 24}, Outcome.TOO_SIDEWAYS),
    "covered": (covered, "swap-inswapper", {"mask": {"occluders": ["xseg-1"]}}, Outcome.COVERED),
    "below threshold": (somebody_else, "swap", {}, Outcome.BELOW_THRESHOLD),
    "nothing stands against it": (portrait, "swap", {}, Outcome.SWAPPED),
}


@pytest.mark.parametrize("name", REASONS)
def test_the_report_says_why_a_face_stayed(stand_ins: Models, people: dict[str, PreparedIdentity], name: str) -> None:
    make, recipe_name, settings, wanted = REASONS[name]
    picture = make()
    recipe = tuned(preset(recipe_name), {"swap": settings})
    plate = facts(picture.shape[1], picture.shape[0])
    seen = portrait() if wanted is Outcome.BELOW_THRESHOLD else picture
    cast = build_cast(observe(frame_of(seen), Analyst(stand_ins, plate, hands=False), seconds=1.0))
    identity = with_sources(people[NEW], recipe, stand_ins)
    mapping = resolve(MappingRequest(identity=NEW), cast, {NEW: identity})
    before = frame_of(picture)
    pipeline = FacePipeline(recipe, mapping, {NEW: identity}, stand_ins, plate)
    (result,) = pipeline.process([frame_of(picture)], 0, 1)
    (person,) = summarise([result.report]).people
    (span,) = person.spans
    assert (span.outcome, span.first, span.last, span.first_pts) == (wanted, 0, 0, 0)
    same = all(np.array_equal(a, b) for a, b in zip(before.planes, result.frame.planes, strict=True))
    assert same == (wanted is not Outcome.SWAPPED)


def test_a_swap_fades_out_where_the_focus_is_lost(stand_ins: Models, people: dict[str, PreparedIdentity]) -> None:
    plate = facts(512, 512)
    reach = []
    for share in (0.0, 0.042, 0.06):
        picture = blurred(share) if share else portrait()
        cast = build_cast(observe(frame_of(picture), Analyst(stand_ins, plate, hands=False), seconds=1.0))
        mapping = resolve(MappingRequest(identity=NEW), cast, people)
        pipeline = FacePipeline(preset("swap"), mapping, people, stand_ins, plate)
        (result,) = pipeline.process([frame_of(picture)], 0, 1)
        reach.append(0 if result.mask is None else int(result.mask.max()))
    assert reach[0] == 255
    assert 25 < reach[1] < 250
    assert reach[2] == 0
