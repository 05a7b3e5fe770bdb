"""Observations gathered into people."""

import numpy as np
import pytest

from farm.faces.cast import Cast, FaceObservation, build_cast
from farm.faces.geometry import HeadPose
from tests.unit.faces.people import direction


def sighting(index: int, number: int, *, worth: float = 0.5, yaw: float = 0.0, noise: int = 20) -> FaceObservation:
    return FaceObservation(
        index=index,
        pts=index * 10,
        seconds=0.5,
        box=np.array([0.0, 0, 10, 10]),
        pose=HeadPose(yaw, 0, 0),
        presence=1.0,
        embedding=direction(number, towards=noise + index % 5, share=0.5),
        worth=worth,
        shape=np.full((468, 3), float(number) + (5 if abs(yaw) > 40 else 0), np.float32),
        thumbnail=f"{number}-{index}".encode(),
    )


def test_two_people_are_told_apart_and_the_lead_comes_first() -> None:
    seen = [sighting(i, 1) for i in range(4)] + [sighting(i, 2) for i in range(3, 12)]
    cast = build_cast(seen, frames_seen=12)
    assert [(m.id, m.sightings, m.screen_seconds) for m in cast.members] == [("person-1", 9, 4.5), ("person-2", 4, 2.0)]
    assert cast.lead is cast.members[0]
    assert (cast.members[0].first_pts, cast.members[0].last_pts) == (30, 110)
    assert cast.members[0].embedding @ direction(2) > 0.9


def test_the_best_picture_is_the_thumbnail() -> None:
    cast = build_cast([sighting(0, 1, worth=0.1), sighting(1, 1, worth=0.9), sighting(2, 1, worth=0.3)])
    assert cast.members[0].thumbnail == b"1-1"


def test_views_from_the_side_do_not_shape_the_face_at_rest() -> None:
    cast = build_cast([sighting(0, 1), sighting(1, 1, yaw=60), sighting(2, 1, yaw=-60), sighting(3, 1, yaw=70)])
    np.testing.assert_allclose(cast.members[0].rest, 1.0)


def test_groups_that_turn_out_alike_are_one_person() -> None:
    # Two unlike sightings start two groups; what follows pulls both means to the same person.
    far = [direction(1, towards=30, share=0.85), direction(1, towards=31, share=0.85)]
    seen = [sighting(i, 1) for i in range(2, 30)]
    first = [FaceObservation(**{**_fields(sighting(i, 1)), "embedding": far[i]}) for i in range(2)]
    assert len(build_cast(first).members) == 2
    assert len(build_cast(first + seen).members) == 1


def test_memory_is_bounded_and_the_count_is_not() -> None:
    cast = build_cast(sighting(i, 1) for i in range(1000))
    assert cast.members[0].sightings == 1000
    assert cast.members[0].screen_seconds == pytest.approx(500)


def test_a_cast_survives_the_store() -> None:
    cast = build_cast([sighting(0, 1), sighting(1, 2), sighting(2, 2)], frames_seen=3)
    again = Cast.from_bytes(cast.to_bytes())
    assert again.frames_seen == 3
    for a, b in zip(again.members, cast.members, strict=True):
        assert (a.id, a.thumbnail, a.first_pts, a.last_pts, a.sightings) == (
            b.id,
            b.thumbnail,
            b.first_pts,
            b.last_pts,
            b.sightings,
        )
        np.testing.assert_array_equal(a.embedding, b.embedding)
        np.testing.assert_array_equal(a.rest, b.rest)


def test_an_empty_plate_has_an_empty_cast() -> None:
    cast = Cast.from_bytes(build_cast([], frames_seen=7).to_bytes())
    assert cast == Cast((), 7)
    assert cast.lead is None


def _fields(seen: FaceObservation) -> dict[str, object]:
    return {name: getattr(seen, name) for name in FaceObservation.__dataclass_fields__}
