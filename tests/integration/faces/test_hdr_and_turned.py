"""HDR, and turned and mirrored plates, through the whole pipeline: faces are found, and nothing else is touched."""

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
from farm.faces.pipeline import FacePipeline, Rendered
from farm.faces.report import Outcome
from farm.faces.views import Analyst
from farm.inference.session import Models
from farm.inference.spec import LicenceClass
from farm.media.colour import region_to_rgb
from farm.media.facts import ColourFacts, PlateFacts
from farm.media.frame import Frame
from farm.media.tonemap import tone_map_of
from farm.recipe import Recipe, preset
from farm.sample import portrait_picture
from tests.hdr import HLG, PQ, graded
from tests.integration.faces.test_detectors import frame_of
from tests.stand_ins import stand_in_catalogue
from tests.unit.faces.people import facts

NEW = "grace_hopper"
SIDE = 384

TURNS = {
    "a quarter to the left": (0, -65536, 0, 65536, 0, 0, 0, 0, 1073741824),
    "upside down": (-65536, 0, 0, 0, -65536, 0, 0, 0, 1073741824),
    "a quarter to the right": (0, 65536, 0, -65536, 0, 0, 0, 0, 1073741824),
    "mirrored": (-65536, 0, 0, 0, 65536, 0, 0, 0, 1073741824),
}
"""Display matrices as containers hold them."""


@pytest.fixture(scope="module")
def stand_ins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Models]:
    folder: Path = tmp_path_factory.mktemp("hdr")
    deployment = stand_in_catalogue(folder / "models", folder / "home", ["inswapper-128"])
    with deployment.open_models(providers=["CPUExecutionProvider"], allowed_licences=list(LicenceClass)) as opened:
        yield opened


def portrait() -> NDArray[np.uint8]:
    picture = cv2.imread(str(portrait_picture("astronaut")))
    assert picture is not None
    return np.asarray(picture[: 2 * (picture.shape[0] // 2), : 2 * (picture.shape[1] // 2)], np.uint8)


def hdr(colour: ColourFacts) -> Frame:
    """The portrait graded as HDR: diffuse white where the standard puts it."""
    picture = np.asarray(cv2.resize(portrait(), (SIDE, SIDE), interpolation=cv2.INTER_AREA), np.uint8)
    return graded(picture, colour)


def about(frame: Frame, **video: object) -> PlateFacts:
    plain = facts(frame.width, frame.height)
    update = {"colour": frame.colour, "sample_format": frame.format.name, "bit_depth": frame.format.depth, **video}
    return plain.model_copy(update={"video": plain.video.model_copy(update=update)})


def copy_of(frame: Frame) -> Frame:
    return Frame(tuple(plane.copy() for plane in frame.planes), frame.format, frame.colour, frame.pts, frame.index)


def rendered(
    frame: Frame, plate: PlateFacts, recipe: Recipe, models: Models, people: dict[str, PreparedIdentity]
) -> Rendered:
    identity = with_sources(people[NEW], recipe, models)
    cast = build_cast(observe(frame, Analyst(models, plate, hands=False), seconds=1.0))
    mapping = resolve(MappingRequest(identity=NEW), cast, {NEW: identity})
    (result,) = FacePipeline(recipe, mapping, {NEW: identity}, models, plate).process([copy_of(frame)], 0, 1)
    return result


def check(result: Rendered, before: Frame) -> NDArray[np.bool_]:
    """One face was swapped, and every sample outside the mask has its bits; gives where the picture changed."""
    assert [face.outcome for face in result.report.faces] == [Outcome.SWAPPED]
    assert result.mask is not None
    assert (result.frame.planes[0] == before.planes[0])[result.mask == 0].all()
    assert 0.01 < (result.mask > 0).mean() < 0.6
    return np.asarray(result.mask > 250)


@pytest.mark.parametrize("recipe", ["swap", "swap-inswapper"])
@pytest.mark.parametrize("colour", [PQ, HLG], ids=["pq", "hlg"])
def test_an_hdr_plate_keeps_its_depth_and_its_light(
    stand_ins: Models, people: dict[str, PreparedIdentity], colour: ColourFacts, recipe: str
) -> None:
    before = hdr(colour)
    result = rendered(before, about(before), preset(recipe), stand_ins, people)
    inside = check(result, before)
    assert result.frame.planes[0].dtype == np.uint16
    assert result.mask is not None
    assert len(np.unique(result.frame.planes[0][inside])) > 256 // 4
    # no lightning: nothing is brighter than the plate's own light there, or than diffuse white
    white = 64 + 876 * (0.5806 if colour.transfer == "smpte2084" else 0.75)
    made = result.frame.planes[0][inside].astype(int)
    brightest = 64 + 876 * float(region_to_rgb(before, (0, 0, SIDE, SIDE)).max())
    assert made.max() <= max(white, brightest) + 9
    if recipe == "swap":
        assert abs(made.mean() - before.planes[0][inside].mean()) < 0.05 * 876


@pytest.mark.parametrize("recipe", ["swap", "swap-inswapper"])
@pytest.mark.parametrize("colour", [PQ, HLG], ids=["pq", "hlg"])
def test_swappers_see_a_tone_mapped_plate_and_give_hdr_back(
    stand_ins: Models, people: dict[str, PreparedIdentity], colour: ColourFacts, recipe: str
) -> None:
    """Graded as HDR or not, a plate gets the same new face: compared as models see pictures."""
    plate, box = hdr(colour), (0, 0, SIDE, SIDE)
    tones = tone_map_of(colour)
    plain = frame_of(np.ascontiguousarray(tones.glimpse(region_to_rgb(plate, box))[:, :, ::-1]))
    made, wanted = (rendered(before, about(before), preset(recipe), stand_ins, people) for before in (plate, plain))
    inside = check(made, plate) & check(wanted, plain)
    ours = tones.seen(region_to_rgb(made.frame, box))[inside]
    theirs = np.clip(region_to_rgb(wanted.frame, box), 0, 1)[inside]
    assert np.abs(ours - theirs).mean() < (0.03 if colour is PQ else 0.016)  # painted on the signal: .071 and .020


@pytest.mark.parametrize("recipe", ["swap", "swap-inswapper"])
@pytest.mark.parametrize("name", TURNS)
def test_a_turned_or_mirrored_plate_is_swapped_as_it_is_shown(
    stand_ins: Models, people: dict[str, PreparedIdentity], name: str, recipe: str
) -> None:
    """The coded picture is the shown one turned back; the result, shown, is that of the plate that was never turned."""
    shown = portrait()
    matrix = TURNS[name]
    turn = np.array([[matrix[0], matrix[3]], [matrix[1], matrix[4]]]) / 65536
    coded = shown
    if turn[0, 0] == 0:
        coded = np.rot90(shown, 1 if turn[0, 1] > 0 else -1)
    elif turn[1, 1] < 0:
        coded = np.rot90(shown, 2)
    else:
        coded = shown[:, ::-1]
    before = frame_of(np.ascontiguousarray(coded))
    plate = about(before, display_matrix=matrix)
    result = rendered(before, plate, preset(recipe), stand_ins, people)
    inside = check(result, before)
    straight = frame_of(shown)
    wanted = rendered(straight, about(straight), preset(recipe), stand_ins, people)
    assert abs(int(inside.sum()) - int((wanted.mask > 250).sum() if wanted.mask is not None else 0)) < inside.sum() / 10
