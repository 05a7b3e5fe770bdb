"""The account of a render."""

from itertools import pairwise

import pytest

from farm.faces.report import FaceReport, FrameReport, Outcome, joined, summarise, time_code

BOX = (0.0, 0.0, 10.0, 10.0)


def one(index: int, *faces: tuple[str | None, Outcome]) -> FrameReport:
    found = tuple(FaceReport(box=BOX, person=p, similarity=0.5, outcome=o) for p, o in faces)
    return FrameReport(index=index, pts=index * 10, faces=found)


def test_frames_are_counted_by_person_and_outcome_with_their_times() -> None:
    swapped, small = Outcome.SWAPPED, Outcome.TOO_SMALL
    report = summarise(
        [
            one(0, ("person-1", swapped), (None, Outcome.NOT_MAPPED)),
            one(1, ("person-1", swapped)),
            one(2),
            one(3, ("person-1", small)),
            one(4, ("person-1", swapped)),
        ]
    )
    lead, stranger = report.people
    assert (report.frames, report.without_face) == (5, 1)
    assert lead.frames == {swapped: 3, small: 1}
    assert [(s.outcome, s.first, s.last, s.last_pts) for s in lead.spans] == [
        (swapped, 0, 1, 10),
        (small, 3, 3, 30),
        (swapped, 4, 4, 40),
    ]
    assert (stranger.person, stranger.frames) == (None, {Outcome.NOT_MAPPED: 1})
    assert one(0, ("a", swapped), ("b", small)).swapped == 1


def test_two_faces_of_one_person_do_not_break_their_span() -> None:
    frames = [one(i, ("p", Outcome.SWAPPED), ("p", Outcome.TOO_SMALL)) for i in range(6)]
    (person,) = summarise(frames).people
    assert [(s.outcome, s.first, s.last) for s in person.spans] == [
        (Outcome.SWAPPED, 0, 5),
        (Outcome.TOO_SMALL, 0, 5),
    ]


FRAMES = [
    one(0),
    one(1),
    one(2, ("a", Outcome.SWAPPED), ("b", Outcome.NOT_MAPPED)),
    one(3, ("a", Outcome.SWAPPED)),
    one(4, ("a", Outcome.TOO_SMALL), ("a", Outcome.SWAPPED)),
    one(5),
    one(6, (None, Outcome.BELOW_THRESHOLD)),
    FrameReport(index=7, pts=70, looked=False),
]


def test_frames_without_a_face_and_frames_not_looked_at_are_said() -> None:
    report = summarise(FRAMES)
    assert (report.without_face, report.not_looked) == (3, 1)
    assert [(s.first, s.last, s.first_pts, s.last_pts) for s in report.empty] == [(0, 1, 0, 10), (5, 5, 50, 50)]


@pytest.mark.parametrize("cuts", [(1,), (3,), (2, 4), tuple(range(1, 8))])
def test_the_account_of_a_job_does_not_depend_on_how_it_was_cut(cuts: tuple[int, ...]) -> None:
    bounds = (0, *cuts, len(FRAMES))
    chunks = [summarise(FRAMES[a:b]) for a, b in pairwise(bounds)]
    assert joined(chunks) == summarise(FRAMES)


def test_time_codes() -> None:
    assert [time_code(s) for s in (0, 61.5, 3723.0407)] == ["00:00:00.000", "00:01:01.500", "01:02:03.041"]
