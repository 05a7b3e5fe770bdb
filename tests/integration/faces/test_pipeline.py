"""The whole room on a generated plate of two people: cast, mapping, swap, report, and chunks that do not show."""

import hashlib
from collections.abc import Iterator
from dataclasses import replace

import cv2
import numpy as np
import pytest

from farm.errors import NotFoundError
from farm.faces.cast import Cast, build_cast, observe
from farm.faces.extent import Extent
from farm.faces.identity import PreparedIdentity
from farm.faces.mapping import Mapping, MappingMode, MappingRequest, resolve
from farm.faces.network import Network
from farm.faces.pipeline import FacePipeline, Rendered
from farm.faces.report import Outcome, summarise
from farm.faces.views import Analyst
from farm.inference.session import Models
from farm.media.frame import Frame
from farm.recipe import preset
from farm.sample import portrait_picture
from farm.sample.evaluate import Judge, changed_outside, may_change
from tests.integration.faces.conftest import Plate

MAPPED, NEW = "astronaut", "grace_hopper"


@pytest.fixture(scope="module")
def cast(plate: Plate, models: Models) -> Cast:
    analyst = Analyst(models, plate.facts, hands=False)
    seen = [o for frame in plate.frames() if frame.index % 6 == 0 for o in observe(frame, analyst, seconds=0.25)]
    return build_cast(seen, frames_seen=6)


@pytest.fixture(scope="module")
def mapping(cast: Cast, people: dict[str, PreparedIdentity]) -> Mapping:
    """The astronaut becomes the admiral; the admiral, who is in the plate too, stays as she is."""
    request = MappingRequest(mode=MappingMode.REFERENCE, references={MAPPED: NEW})
    return resolve(request, cast, people)


def render(
    plate: Plate, mapping: Mapping, people: dict[str, PreparedIdentity], models: Models, first: int, last: int
) -> Iterator[Rendered]:
    pipeline = FacePipeline(preset("swap"), mapping, people, models, plate.facts)
    before, after = pipeline.context
    return pipeline.process(plate.frames(max(0, first - before), last + after), first, last)


@pytest.fixture(scope="module")
def rendered(plate: Plate, mapping: Mapping, people: dict[str, PreparedIdentity], models: Models) -> list[Rendered]:
    return list(render(plate, mapping, people, models, 0, len(plate.truth)))


def digest(result: Rendered) -> str:
    return hashlib.sha256(b"".join(plane.tobytes() for plane in result.frame.planes)).hexdigest()


def test_both_people_are_in_the_cast_with_a_picture_and_their_time(
    cast: Cast, people: dict[str, PreparedIdentity]
) -> None:
    assert len(cast.members) == 2
    for name in (MAPPED, NEW):
        likeness = [float(member.embedding @ people[name].embedding) for member in cast.members]
        assert max(likeness) > 0.7
        assert min(likeness) < 0.3
    for member in cast.members:
        thumbnail = cv2.imdecode(np.frombuffer(member.thumbnail, np.uint8), cv2.IMREAD_COLOR)
        assert thumbnail is not None
        assert thumbnail.shape == (160, 160, 3)
        assert member.screen_seconds == pytest.approx(1.5)


def test_the_mapped_face_changes_and_nothing_else(plate: Plate, models: Models, rendered: list[Rendered]) -> None:
    picture = np.asarray(cv2.imread(str(portrait_picture(NEW))), np.uint8)
    judge = Judge(models, plate.truth, {MAPPED: picture})
    size = (plate.facts.video.width, plate.facts.video.height)
    for result, original in zip(rendered, plate.frames(), strict=True):
        allowed = may_change(plate.truth, original.index, [MAPPED], size)
        assert changed_outside(original, result.frame, allowed) == 0
        assert result.mask is not None
        assert (result.frame.planes[0] == original.planes[0])[result.mask == 0].all()
        judge.see(original.index, as_bgr(result))
    scores = judge.report()
    assert scores[MAPPED].as_wanted >= 0.95
    assert scores[NEW].as_wanted == 1.0


def as_bgr(result: Rendered) -> np.ndarray:
    planes = result.frame.planes
    stacked = np.concatenate([plane.reshape(-1) for plane in planes]).reshape(-1, result.frame.width)
    return np.asarray(cv2.cvtColor(stacked, cv2.COLOR_YUV2BGR_I420), np.uint8)


def test_every_face_is_accounted_for(plate: Plate, rendered: list[Rendered]) -> None:
    report = summarise(result.report for result in rendered)
    assert report.frames == len(plate.truth)
    assert report.without_face == 0
    outcomes = sorted(list(person.frames.items()) for person in report.people)
    assert outcomes == [[(Outcome.NOT_MAPPED, len(plate.truth))], [(Outcome.SWAPPED, len(plate.truth))]]


def test_many_chunks_give_the_frames_of_one(
    plate: Plate, mapping: Mapping, people: dict[str, PreparedIdentity], models: Models, rendered: list[Rendered]
) -> None:
    many = []
    for first, last in ((0, 7), (7, 8), (8, 23), (23, len(plate.truth))):
        many += list(render(plate, mapping, people, models, first, last))
    assert [digest(result) for result in many] == [digest(result) for result in rendered]
    assert [result.report for result in many] == [result.report for result in rendered]
    for a, b in zip(many, rendered, strict=True):
        np.testing.assert_array_equal(a.mask, b.mask)


def test_a_face_that_is_there_for_three_frames_between_two_looks_is_changed(
    plate: Plate, mapping: Mapping, people: dict[str, PreparedIdentity], models: Models
) -> None:
    def hidden(frame: Frame) -> Frame:
        """The frame with a grey wall before one of the two, but in frames 5 to 7."""
        if 5 <= frame.index <= 7:
            return frame
        x0, y0, x1, y1 = (int(edge) for edge in plate.truth.box[frame.index, plate.truth.person(MAPPED)])
        luma = frame.planes[0].copy()
        luma[max(0, y0 - 30) : y1 + 30, max(0, x0 - 30) : x1 + 30] = 90
        return replace(frame, planes=(luma, *frame.planes[1:]))

    pipeline = FacePipeline(preset("swap"), mapping, people, models, plate.facts)
    results = list(pipeline.process(map(hidden, plate.frames(0, 16)), 0, 12))
    swapped = [result.frame.index for result in results if result.report.swapped]
    assert swapped == [5, 6, 7]


def test_outside_its_times_a_face_stays(
    plate: Plate, mapping: Mapping, people: dict[str, PreparedIdentity], models: Models
) -> None:
    early = Mapping(mapping.people, None, mapping.threshold, include=(Extent(end=2 / 24),))
    results = list(render(plate, early, people, models, 0, 4))
    originals = list(plate.frames(0, 4))
    changed = [digest(a) != digest(Rendered(b, a.report, None)) for a, b in zip(results, originals, strict=True)]
    assert changed == [True, True, False, False]
    outcomes = {face.outcome for face in results[3].report.faces}
    assert outcomes == {Outcome.OUT_OF_TIME, Outcome.NOT_MAPPED}


def test_a_face_in_a_region_left_out_stays_and_the_other_changes(
    plate: Plate, mapping: Mapping, people: dict[str, PreparedIdentity], models: Models
) -> None:
    everybody = tuple(replace(person, identity=NEW) for person in mapping.people)
    x0, y0, x1, y1 = (float(edge) for edge in plate.truth.box[0, plate.truth.person(MAPPED)])
    around = Mapping(everybody, None, mapping.threshold, exclude=(Extent(box=(x0 - 9, y0 - 9, x1 + 9, y1 + 9)),))
    kept, changed = {}, {}
    for result in render(plate, around, people, models, 0, 3):
        for face in result.report.faces:
            inside = x0 < (face.box[0] + face.box[2]) / 2 < x1
            (kept if inside else changed).setdefault(face.outcome, []).append(result.frame.index)
    assert kept == {Outcome.OUT_OF_REGION: [0, 1, 2]}
    assert changed == {Outcome.SWAPPED: [0, 1, 2]}


class NoNetworks:
    def load(self, name: str) -> Network:
        raise AssertionError(f"{name} was loaded")


def test_passing_through_loads_nothing_and_changes_nothing(plate: Plate) -> None:
    pipeline = FacePipeline(preset("passthrough"), Mapping(), {}, NoNetworks(), plate.facts)
    assert pipeline.context == (0, 0)
    results = list(pipeline.process(plate.frames(), 2, 9))
    assert [result.frame.index for result in results] == list(range(2, 9))
    for result, original in zip(results, plate.frames(2, 9), strict=True):
        assert digest(result) == digest(Rendered(original, result.report, None))
        assert result.mask is None
        assert result.report.faces == ()


def test_a_mapping_to_an_identity_that_was_not_given_is_refused(plate: Plate, mapping: Mapping, models: Models) -> None:
    with pytest.raises(NotFoundError, match=NEW):
        FacePipeline(preset("swap"), mapping, {}, models, plate.facts)
