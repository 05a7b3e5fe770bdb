"""Who becomes whom."""

import numpy as np
import pytest
from pydantic import ValidationError

from farm.errors import InputError, NotFoundError
from farm.faces.cast import Cast, CastMember
from farm.faces.extent import Extent
from farm.faces.mapping import Mapping, MappingMode, MappingRequest, resolve
from farm.faces.report import Outcome
from tests.unit.faces.people import direction, identity


def member(name: str, number: int) -> CastMember:
    rest = np.full((468, 3), float(number))
    return CastMember(name, direction(number), b"", 1.0, 0, 10, 3, rest)


CAST = Cast((member("person-1", 1), member("person-2", 2)), frames_seen=9)
PEOPLE = {"new": identity(), "ref": identity()}  # identities look like direction(1), the lead


def named(mapping: Mapping) -> dict[str, str | None]:
    return {person.id: person.identity for person in mapping.people}


def test_lead_maps_the_person_with_most_screen_time_alone() -> None:
    mapping = resolve(MappingRequest(identity="new"), CAST, PEOPLE)
    assert named(mapping) == {"person-1": "new", "person-2": None}
    assert mapping.everyone is None
    assert mapping.identities == {"new"}


def test_all_maps_the_cast_and_strangers() -> None:
    mapping = resolve(MappingRequest(mode=MappingMode.ALL, identity="new"), CAST, PEOPLE)
    assert named(mapping) == {"person-1": "new", "person-2": "new"}
    assert mapping.everyone == "new"


def test_cast_maps_whom_it_names() -> None:
    request = MappingRequest(mode=MappingMode.CAST, assignments={"person-2": "new"})
    assert named(resolve(request, CAST, PEOPLE)) == {"person-1": None, "person-2": "new"}


def test_reference_finds_the_person_of_the_picture() -> None:
    request = MappingRequest(mode=MappingMode.REFERENCE, references={"ref": "new"})
    assert named(resolve(request, CAST, PEOPLE)) == {"person-1": "new", "person-2": None}


def test_a_reference_that_nobody_looks_like_is_said() -> None:
    request = MappingRequest(mode=MappingMode.REFERENCE, references={"ref": "new"})
    with pytest.raises(InputError, match="Of 1 person in the plate nobody"):
        resolve(request, Cast((member("person-1", 5),)), PEOPLE)


def test_unknown_names_and_a_plate_without_faces_are_said() -> None:
    with pytest.raises(NotFoundError, match="no identity called 'nobody'"):
        resolve(MappingRequest(identity="nobody"), CAST, PEOPLE)
    with pytest.raises(NotFoundError, match="no cast member 'person-9'"):
        resolve(MappingRequest(mode=MappingMode.CAST, assignments={"person-9": "new"}), CAST, PEOPLE)
    with pytest.raises(InputError, match="No face was found in 12 frames"):
        resolve(MappingRequest(identity="new"), Cast((), frames_seen=12), PEOPLE)


@pytest.mark.parametrize("mode", list(MappingMode))
def test_each_mode_says_what_it_needs(mode: MappingMode) -> None:
    with pytest.raises(ValidationError, match="needs"):
        MappingRequest(mode=mode)


def test_who_takes_the_nearest_person_over_the_threshold() -> None:
    mapping = resolve(MappingRequest(identity="new", threshold=0.3), CAST, PEOPLE)
    person, likeness = mapping.who(direction(9, towards=2, share=0.6))
    assert person is not None
    assert person.id == "person-2"
    assert likeness == pytest.approx(0.6, abs=1e-6)
    assert mapping.who(direction(9))[0] is None
    assert mapping.who(None) == (None, 0.0)


def test_times_are_half_open_and_exclusion_wins() -> None:
    mapping = Mapping(include=(Extent(start=1, end=3),), exclude=(Extent(start=2, end=2.5),))
    late = Outcome.OUT_OF_TIME
    assert [mapping.refusal(t, (5, 5)) for t in (0.9, 1, 2, 2.4, 2.5, 3)] == [late, None, late, late, None, late]
    assert Mapping(include=(Extent(start=5),)).refusal(1e6, (0, 0)) is None


def test_a_face_is_changed_inside_the_regions_and_kept_in_those_left_out() -> None:
    box = Extent(box=(10, 10, 100, 60))
    hole = Extent(polygon=((40, 10), (60, 10), (50, 30)), start=2)
    mapping = Mapping(include=(box,), exclude=(hole,))
    beside = Outcome.OUT_OF_REGION
    inside, edge, outside, in_hole = (20, 20), (100, 20), (5, 20), (50, 15)
    assert [mapping.refusal(0, p) for p in (inside, edge, outside, in_hole)] == [None, beside, beside, None]
    assert [mapping.refusal(2, p) for p in (inside, in_hole)] == [None, beside]


def test_a_region_counts_in_its_own_times_only() -> None:
    mapping = Mapping(include=(Extent(box=(0, 0, 9, 9), start=1, end=2), Extent(start=5)))
    assert mapping.refusal(0, (3, 3)) is Outcome.OUT_OF_TIME
    assert mapping.refusal(1, (3, 3)) is None
    assert mapping.refusal(1, (30, 3)) is Outcome.OUT_OF_REGION
    assert mapping.refusal(6, (30, 3)) is None


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"start": 3, "end": 3}, "ends after it starts"),
        ({"box": (5, 0, 5, 9)}, "upper left corner first"),
        ({"polygon": ((0, 0), (1, 1))}, "at least 3"),
        ({"box": (0, 0, 1, 1), "polygon": ((0, 0), (1, 1), (0, 1))}, "not both"),
        ({"radius": 4}, "Extra inputs"),
    ],
)
def test_what_is_no_part_of_a_plate_is_refused(fields: dict[str, object], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        Extent.model_validate(fields)


def test_a_mapping_survives_the_way_to_the_workers() -> None:
    request = MappingRequest(identity="new", include=(Extent(start=1),), exclude=(Extent(box=(0, 1, 2, 3)),))
    before = resolve(request, CAST, PEOPLE)
    after = Mapping.from_bytes(before.to_bytes())
    assert named(after) == named(before)
    assert (after.everyone, after.threshold, after.include, after.exclude) == (
        before.everyone,
        before.threshold,
        before.include,
        before.exclude,
    )
    for a, b in zip(after.people, before.people, strict=True):
        np.testing.assert_array_equal(a.embedding, b.embedding)
        np.testing.assert_array_equal(a.rest, b.rest)
