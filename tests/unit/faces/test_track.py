"""Links, cuts, gaps and smoothing, and that a window never looks beyond itself."""

from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from farm.faces.hands import Hand
from farm.faces.track import AFTER, BEFORE, Step, Track, Window, is_cut, links_between
from farm.faces.views import Analyst, FaceView, FrameView
from tests.unit.faces.people import direction, frame, head, view

PALM = Hand(np.arange(42.0).reshape(21, 2), 0.9, np.eye(2, 3))


class NoNetworks:
    """Stands in for the analyst: embeds by where the face is, finds missed faces where they are expected."""

    def __init__(self, *, refinds: bool = True) -> None:
        self.refinds = refinds

    def embed(self, _: FrameView, face: FaceView) -> None:
        face.embedding = direction(2)

    def refind(self, _: FrameView, points: NDArray[np.float64]) -> FaceView | None:
        return view(points) if self.refinds else None

    def follow_hand(self, _: FrameView, hand: Hand) -> Hand:
        return hand

    def find_hands(self, _: FrameView, face: FaceView) -> None:
        face.hands = [PALM]


def seen(index: int, faces: list[FaceView], *, grey: float = 0.5) -> FrameView:
    small = np.full((36, 64), grey, np.float32)
    picture = np.zeros((240, 320, 3), np.uint8)
    plain = frame(np.zeros((240, 320), np.uint8), index=index)
    return FrameView(plain, small, faces, lambda: (picture, np.eye(2, 3)))


def window(views: list[FrameView], *, refinds: bool = True) -> Window:
    made = Window(cast(Analyst, NoNetworks(refinds=refinds)))
    for one in views:
        made.push(one)
    return made


def test_neighbours_are_linked_and_a_far_face_is_not() -> None:
    first = [view(head(size=60, centre=(60, 60))), view(head(size=60, centre=(250, 60)))]
    second = [view(head(size=60, centre=(245, 62))), view(head(size=60, centre=(160, 180)))]
    assert links_between(first, second) == {1: 0}


def test_in_a_crowd_looks_decide() -> None:
    a, b = direction(0), direction(1)
    first = [
        view(head(size=60, centre=(100, 60)), embedding=a, crowded=True),
        view(head(size=60, centre=(120, 60)), embedding=b, crowded=True),
    ]
    second = [
        view(head(size=60, centre=(104, 60)), embedding=b, crowded=True),
        view(head(size=60, centre=(116, 60)), embedding=a, crowded=True),
    ]
    assert links_between(first, second) == {0: 1, 1: 0}


def test_an_embedding_that_only_the_tracks_start_made_does_not_change_a_link() -> None:
    first = [view(head(), embedding=direction(0))]
    second = [view(head(), embedding=direction(1))]
    assert links_between(first, second) == {0: 0}


def test_a_cut_ends_tracks_and_a_small_change_of_light_does_not() -> None:
    assert is_cut(seen(0, [], grey=0.2), seen(1, [], grey=0.6))
    assert not is_cut(seen(0, [], grey=0.5), seen(1, [], grey=0.55))
    views = [seen(i, [view(head())], grey=0.2 if i < 5 else 0.7) for i in range(10)]
    (track,) = window(views).tracks(6)
    assert [step.offset for step in track.steps] == [-1, 0, 1, 2, 3]


def test_a_track_stays_inside_its_window() -> None:
    views = [seen(i, [view(head(centre=(100 + i, 120)))]) for i in range(BEFORE + AFTER + 1)]
    (track,) = window(views).tracks(BEFORE)
    assert [step.offset for step in track.steps] == list(range(-BEFORE, AFTER + 1))
    assert {step.view.index + 0 for step in track.steps} == set(range(BEFORE + AFTER + 1))


def test_what_only_an_earlier_frame_tells_is_not_told() -> None:
    """A face that starts on the window's first frame was embedded for it; a chunk that starts there cannot know."""
    views = [seen(0, [])] + [seen(i, [view(head())]) for i in range(1, 30)]
    made = window(views[:18])
    (track,) = made.tracks(1 + BEFORE)
    assert views[1].faces[0].embedding is not None
    assert track.embedding() is None
    (earlier,) = window([seen(0, [])] + [seen(i, [view(head())]) for i in range(1, 17)]).tracks(BEFORE)
    assert earlier.embedding() is not None


def test_a_short_miss_is_filled_between_its_neighbours() -> None:
    views = [seen(i, [] if i in (8, 9) else [view(head(centre=(100 + 3 * i, 120)))]) for i in range(18)]
    (track,) = window(views).tracks(8)
    expected = head(centre=(124, 120))
    np.testing.assert_allclose(track.here.points, expected, atol=1e-6)
    assert window(views, refinds=False).tracks(8) == []


def test_a_missed_face_keeps_the_hands_of_its_frame_and_of_its_neighbours() -> None:
    missed_when_looked_for = [seen(i, [] if i == 8 else [view(head())]) for i in range(18)]
    one = window(missed_when_looked_for)
    (track,) = one.tracks(8)
    assert [hand is PALM for hand in one.hands(track)] == [True]

    between = [seen(i, [] if i in (6, 7) else [view(head())]) for i in range(18)]
    for face in between[8].faces:
        face.hands = [PALM]
    one = window(between)
    (track,) = one.tracks(6)
    assert [hand is PALM for hand in one.hands(track)] == [True]
    assert [step.offset for step in track.steps] == [*range(-5, 1), *range(2, 9)]


def test_a_face_that_left_is_not_filled_in() -> None:
    views = [seen(i, [view(head())] if i < 8 else []) for i in range(18)]
    assert window(views).tracks(8) == []


@pytest.mark.parametrize("motion", [lambda t: 2.0 * t, lambda t: 0.3 * t**2])
def test_smoothing_adds_no_lag_to_steady_and_accelerated_motion(motion: Any) -> None:
    steps = tuple(
        Step(o, seen(o + 20, []), view(head(centre=(100 + motion(o), 120)))) for o in range(-BEFORE, AFTER + 1)
    )
    np.testing.assert_allclose(Track(steps).points(), head(centre=(100, 120)), atol=1e-9)


def test_smoothing_calms_a_still_head() -> None:
    rng = np.random.default_rng(3)
    noisy = [head() + rng.normal(0, 0.3, (478, 3)) for _ in range(BEFORE + AFTER + 1)]
    steps = tuple(Step(o, seen(o + 20, []), view(p)) for o, p in zip(range(-BEFORE, AFTER + 1), noisy, strict=True))
    before = np.abs(noisy[BEFORE] - head()).mean()
    assert np.abs(Track(steps).points() - head()).mean() < 0.75 * before
