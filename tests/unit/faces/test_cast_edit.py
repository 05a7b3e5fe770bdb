"""A cast corrected by hand."""

import numpy as np
import pytest

from farm.errors import InputError, NotFoundError
from farm.faces.cast import MOST_APPEARANCES, build_cast
from farm.faces.cast_edit import merge_members, split_member
from farm.faces.member import Cast
from tests.unit.faces.people import direction
from tests.unit.faces.test_cast import sighting


def cast() -> Cast:
    """person-1 is seen twice with a long pause between, person-2 and person-3 once each."""
    frames = [*range(6), *range(200, 206)]
    seen = [sighting(i, 1) for i in frames] + [sighting(i, 2) for i in range(5)] + [sighting(i, 3) for i in range(3)]
    return build_cast(sorted(seen, key=lambda s: s.index), frames_seen=206, gap=20)


def numbers(found: Cast) -> dict[str, list[int]]:
    return {member.id: [part.number for part in member.appearances] for member in found.members}


def test_a_pause_makes_a_new_appearance() -> None:
    found = cast()
    assert numbers(found) == {"person-1": [1, 2], "person-2": [3], "person-3": [4]}
    first, second = found.members[0].appearances
    assert (first.first_pts, first.last_pts, second.first_pts, second.last_pts) == (0, 50, 2000, 2050)


def test_somebody_who_looks_otherwise_all_of_a_sudden_makes_a_new_appearance() -> None:
    # each is alike enough to the mean of all to be the same person, but they are not alike
    near = [direction(1, towards=30, share=0.85), direction(1, towards=31, share=0.85)]
    seen = [sighting(i, 1) for i in range(6)]
    for observation, embedding in zip(seen[4:], near, strict=True):
        object.__setattr__(observation, "embedding", embedding)
    assert [part.sightings for part in build_cast(seen).members[0].appearances] == [5, 1]


def test_twins_in_one_frame_are_two_appearances_and_can_be_split() -> None:
    seen = [sighting(i, 1, noise=noise) for i in range(6) for noise in (20, 60)]
    twins = build_cast(seen)
    assert [part.sightings for part in twins.members[0].appearances] == [6, 6]
    apart, _ = split_member(twins, "person-1", [2])
    assert apart.members[0].embedding @ direction(60) < 0.1 < apart.members[0].embedding @ direction(20)


def test_a_merge_keeps_one_id_and_gives_the_others_to_nobody() -> None:
    merged = merge_members(cast(), "person-3", ["person-1"])
    assert numbers(merged) == {"person-3": [1, 4, 2], "person-2": [3]}
    lead = merged.members[0]
    assert (lead.sightings, lead.screen_seconds, lead.first_pts, lead.last_pts) == (15, 7.5, 0, 2050)
    again, fresh = split_member(merged, "person-3", [1, 2])
    assert fresh == "person-4"
    assert numbers(again) == {"person-4": [1, 2], "person-2": [3], "person-3": [4]}


def test_a_split_and_a_merge_undo_one_another_but_for_the_name() -> None:
    before = cast()
    apart, fresh = split_member(before, "person-1", [2])
    assert numbers(apart) == {"person-1": [1], "person-4": [2], "person-2": [3], "person-3": [4]}
    assert apart.members[0].embedding @ apart.members[1].embedding > 0.9
    after = merge_members(apart, "person-1", [fresh])
    for a, b in zip(before.members, after.members, strict=True):
        assert (a.id, a.thumbnail, a.sightings) == (b.id, b.thumbnail, b.sightings)
        np.testing.assert_array_equal(a.embedding, b.embedding)
        np.testing.assert_array_equal(a.rest, b.rest)


def test_names_are_never_given_twice_however_often_a_cast_is_stored() -> None:
    found, fresh = split_member(cast(), "person-1", [2])
    stored = Cast.from_bytes(merge_members(found, "person-1", [fresh]).to_bytes())
    assert split_member(stored, "person-1", [1])[1] == "person-5"


def test_what_cannot_be_merged_or_split_is_named() -> None:
    found = cast()
    with pytest.raises(NotFoundError, match="no cast member 'person-9'"):
        merge_members(found, "person-9", ["person-1"])
    with pytest.raises(InputError, match="needs two people"):
        merge_members(found, "person-1", ["person-1"])
    with pytest.raises(NotFoundError, match="no appearance 3"):
        split_member(found, "person-1", [3])
    with pytest.raises(InputError, match="some that stay"):
        split_member(found, "person-1", [1, 2])


def test_a_long_plate_has_few_enough_appearances_to_look_through() -> None:
    (member,) = build_cast((sighting(100 * i, 1) for i in range(90)), gap=10).members
    assert len(member.appearances) == MOST_APPEARANCES
    assert sum(part.sightings for part in member.appearances) == member.sightings == 90
