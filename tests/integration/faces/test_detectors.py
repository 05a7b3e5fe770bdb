"""Faces at every angle, small faces in large pictures, and the catalogue's detectors in a render."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from farm.faces.cast import build_cast, observe
from farm.faces.detect import Detector
from farm.faces.embed import Embedder
from farm.faces.geometry import five_points
from farm.faces.identity import PreparedIdentity
from farm.faces.landmarks import Landmarker
from farm.faces.mapping import MappingRequest, resolve
from farm.faces.pipeline import FacePipeline
from farm.faces.report import Outcome
from farm.faces.views import Analyst
from farm.inference.session import Models
from farm.inference.spec import LicenceClass
from farm.inference.standins import FACE_BOX
from farm.media.facts import PlateFacts
from farm.media.frame import Frame
from farm.recipe import DetectorSpec, preset, tuned
from farm.sample import portrait_picture
from tests.stand_ins import stand_in_catalogue
from tests.unit.faces.people import COLOUR, FORMAT, facts

Picture = NDArray[np.uint8]
DETECTORS = ["scrfd-2.5g", "retinaface-10g", "yoloface-8n"]


def portrait(name: str) -> Picture:
    return np.asarray(cv2.imread(str(portrait_picture(name))), np.uint8)


def frame_of(picture: Picture, index: int = 0) -> Frame:
    height, width = picture.shape[:2]
    stacked = cv2.cvtColor(picture, cv2.COLOR_BGR2YUV_I420).reshape(-1)
    luma, quarter = width * height, width * height // 4
    planes = [stacked[:luma].reshape(height, width)]
    planes += [stacked[luma + i * quarter : luma + (i + 1) * quarter].reshape(height // 2, width // 2) for i in (0, 1)]
    return Frame(tuple(np.ascontiguousarray(plane) for plane in planes), FORMAT, COLOUR, pts=index * 10, index=index)


def placed(
    picture: Picture, models: Models, size: float, centre: tuple[float, float], shape: tuple[int, int], turn: float = 0
) -> Picture:
    """The portrait on grey, turned by degrees, its face `size` pixels wide around `centre`."""
    (face,) = Detector(models.load("yunet"))(picture)
    middle = (face.box[:2] + face.box[2:]) / 2
    scale = size / float(face.box[2] - face.box[0])
    affine = cv2.getRotationMatrix2D((float(middle[0]), float(middle[1])), turn, scale)
    affine[:, 2] += np.array(centre) - middle
    grey = (90, 90, 90)
    mode = cv2.INTER_AREA if scale < 0.5 else cv2.INTER_LINEAR
    if scale < 0.5:
        picture = np.asarray(cv2.resize(picture, None, fx=scale, fy=scale, interpolation=mode), np.uint8)
        affine[:, :2] /= scale
    return np.asarray(
        cv2.warpAffine(picture, affine, shape[::-1], borderMode=cv2.BORDER_CONSTANT, borderValue=grey), np.uint8
    )


@pytest.mark.parametrize("name", ["astronaut", "grace_hopper"])
@pytest.mark.parametrize("turn", range(0, 360, 45))
def test_a_face_is_the_same_person_at_every_angle(models: Models, name: str, turn: int) -> None:
    picture, mark, embed = portrait(name), Landmarker(models.load("face-landmarks-478")), Embedder(models.load("sface"))
    upright, turned = (placed(picture, models, 130, (320, 180), (360, 640), angle) for angle in (0, turn))
    find = Detector(models.load("yunet"))
    (face,), (before,) = find(turned), find(upright)
    marks = mark(turned, face)
    assert marks.presence > 0.9
    likeness = embed(turned, five_points(marks.points)) @ embed(upright, five_points(mark(upright, before).points))
    assert likeness > 0.9


@pytest.mark.parametrize("name", ["astronaut", "grace_hopper"])
def test_small_faces_that_lean_are_found_where_a_recipe_asks_for_them(models: Models, name: str) -> None:
    """Of 20 pixels, at 45° and its like, where quarters of a turn alone find none of them."""
    plate = facts(640, 480)
    finders = {
        turned: Analyst(models, plate, detector=DetectorSpec(settings={"turned": turned}), hands=False, skin=False)
        for turned in ("auto", "always")
    }
    found = dict.fromkeys(finders, 0)
    for turn in (45, 135, 225, 315):
        frame = frame_of(placed(portrait(name), models, 20, (320, 240), (480, 640), turn))
        for turned, analyst in finders.items():
            faces = analyst.look(frame).faces
            found[turned] += [bool(np.hypot(*(face.centre - (320, 240))) < 10) for face in faces] == [True]
    assert found["always"] == 4 > found["auto"]


def test_faces_of_sixteen_pixels_are_found_in_a_large_picture_where_a_recipe_asks_for_them(models: Models) -> None:
    shape = (1080, 1920)
    whole = np.full((*shape, 3), 90, np.uint8)
    spots = {(340, 220): 16, (1000, 560): 20, (640, 450): 18, (1700, 900): 200}
    for (x, y), size in spots.items():
        face = placed(portrait("astronaut"), models, size, (x, y), shape)
        near = np.s_[y - 2 * size : y + 2 * size, max(0, x - 2 * size) : x + 2 * size]
        whole[near] = face[near]
    frame, about = frame_of(whole), facts(1920, 1080)

    def found(**settings: object) -> set[tuple[int, int]]:
        analyst = Analyst(models, about, detector=DetectorSpec(settings=settings), hands=False)
        centres = [face.centre for face in analyst.look(frame).faces]
        assert len(centres) <= len(spots)
        return {spot for spot in spots if any(np.hypot(*(centre - spot)) < 20 for centre in centres)}

    assert found() == {(1700, 900)}
    assert found(smallest=16) == set(spots)


@pytest.mark.parametrize("turn", [30, 60, 150, 240, 330])
def test_faces_of_sixteen_pixels_are_found_at_any_angle_where_a_recipe_asks_for_them(models: Models, turn: int) -> None:
    """These five are missed at the detector's own sixteen pixels."""
    spec = DetectorSpec(settings={"turned": "always", "smallest": 16})
    analyst = Analyst(models, facts(640, 480), detector=spec, hands=False, skin=False)
    frame = frame_of(placed(portrait("grace_hopper"), models, 16, (320, 240), (480, 640), turn))
    (face,) = analyst.look(frame).faces
    assert np.hypot(*(face.centre - (320, 240))) < 8


@pytest.fixture(scope="module")
def detectors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Models]:
    folder: Path = tmp_path_factory.mktemp("detectors")
    deployment = stand_in_catalogue(folder / "models", folder / "home", DETECTORS)
    with deployment.open_models(providers=["CPUExecutionProvider"], allowed_licences=list(LicenceClass)) as opened:
        yield opened


@pytest.mark.parametrize("name", DETECTORS)
def test_a_catalogue_detector_finds_the_faces_of_a_render(
    detectors: Models, models: Models, people: dict[str, PreparedIdentity], name: str
) -> None:
    """Its stand-in sees one face, always in the same place: there the portrait is put."""
    x0, y0, x1, y1 = FACE_BOX
    still = placed(portrait("astronaut"), models, x1 - x0, ((x0 + x1) / 2, (y0 + y1) / 2), (640, 640))
    about: PlateFacts = facts(640, 640)
    recipe = tuned(preset("swap"), {"detect": {"model": name}})
    analyst = Analyst(detectors, about, detector=recipe.detector, hands=False)
    cast = build_cast(observe(frame_of(still), analyst, seconds=1.0))
    mapping = resolve(MappingRequest(identity="grace_hopper"), cast, people)
    pipeline = FacePipeline(recipe, mapping, people, detectors, about)
    (first, second) = pipeline.process([frame_of(still, index) for index in range(2)], 0, 2)
    assert [face.outcome for face in (*first.report.faces, *second.report.faces)] == [Outcome.SWAPPED] * 2
    used = {use.name for use in detectors.used()}
    assert name in used
    assert "yunet" not in used
