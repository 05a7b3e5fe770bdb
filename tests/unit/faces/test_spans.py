"""Which frames are looked at in full, and where faces are foretold between two of them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from farm.faces.spans import CADENCE, Spans, foretold
from farm.faces.views import FaceView, Foresight, FrameView
from farm.media.frame import Frame
from tests.unit.faces.people import frame, head, view


def seen(index: int, faces: list[FaceView], *, grey: float = 0.5, unsure: bool = False) -> FrameView:
    """A frame's view of one grey."""
    plain = frame(np.zeros((24, 32), np.uint8), index=index)
    small = np.full((36, 64), grey, np.float32)
    return FrameView(plain, small, faces, lambda: (np.zeros((24, 32, 3), np.uint8), np.eye(2, 3)), unsure)


def face(x: float = 100, size: float = 60) -> FaceView:
    return view(head(size=size, centre=(x, 100)))


def test_a_face_between_two_frames_lies_on_the_line() -> None:
    told = foretold(seen(4, [face(100)]), seen(8, [face(108)]), seen(5, []))
    assert told is not None
    np.testing.assert_allclose(told[0].points, face(102).points)
    assert told[0].score == 0.9


def test_faces_keep_the_order_of_the_frame_before() -> None:
    told = foretold(seen(4, [face(100), face(250)]), seen(8, [face(250), face(100)]), seen(6, []))
    assert told is not None
    assert [round(one.points[:468, 0].mean()) for one in told] == [
        round(one.points[:468, 0].mean()) for one in (face(100), face(250))
    ]


def test_where_nobody_is_seen_nobody_is_foretold() -> None:
    assert foretold(seen(4, []), seen(8, []), seen(5, [])) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([face()], []),
        ([], [face()]),
        ([face(100)], [face(140)]),
        ([face(size=60)], [face(size=90)]),
        ([face(100), face(112)], [face(100), face(112)]),
    ],
    ids=["goes", "comes", "jumps", "grows", "crowds"],
)
def test_a_span_in_which_something_happens_is_looked_at(before: list[FaceView], after: list[FaceView]) -> None:
    assert foretold(seen(4, before), seen(8, after), seen(6, [])) is None


@pytest.mark.parametrize("doubted", [4, 8])
def test_an_end_that_is_unsure_holds_nothing(doubted: int) -> None:
    before, after = (seen(index, [face()], unsure=index == doubted) for index in (4, 8))
    assert foretold(before, after, seen(6, [])) is None


def test_a_cut_and_a_flash_are_looked_at() -> None:
    dark, light = seen(4, [face()], grey=0.1), seen(8, [face()], grey=0.6)
    assert foretold(dark, light, seen(5, [], grey=0.1)) is None
    assert foretold(dark, light, seen(7, [], grey=0.6)) is None
    same = seen(8, [face()], grey=0.1)
    assert foretold(dark, same, seen(6, [], grey=0.6)) is None


def test_what_comes_and_goes_between_the_ends_is_looked_at() -> None:
    before, here, after = (seen(index, []) for index in (4, 6, 8))
    here.small[10:14, 20:24] += 0.2
    assert foretold(before, after, here) is None
    after.small[10:14, 20:24] += 0.2  # it came, and stayed
    assert foretold(before, after, here) == []


@dataclass
class Notes:
    """Looks that note how each frame was looked at, at one face that walks to the right."""

    looked: dict[int, str] = field(default_factory=dict)

    def full(self, frame: Frame) -> FrameView:
        self.looked[frame.index] = "full"
        return seen(frame.index, [face(100 + frame.index)])

    def between(self, frame: Frame, foresight: Foresight) -> FrameView:
        here = seen(frame.index, [])
        told = foresight(here)
        self.looked[frame.index] = "full" if told is None else "line"
        here.faces = [view(one.points) for one in told or ()]
        return here


def frames(first: int, last: int) -> Iterator[Frame]:
    return (frame(np.zeros((24, 32), np.uint8), index=index) for index in range(first, last))


def looked(first: int, last: int, low: int, high: int) -> tuple[list[Any], dict[int, str]]:
    """What comes out of frames [first, last) of a plate where [low, high) are wanted."""
    notes = Notes()
    with ThreadPoolExecutor(2) as pool:
        views = list(Spans(pool, notes, low, high, depth=3).seen(frames(first, last)))
    return [(one.index, *one.faces[0].points[0]) for one in views], notes.looked


def test_every_fourth_is_looked_at_in_full_and_the_plates_ends_are() -> None:
    views, how = looked(0, 11, 0, 11)
    assert [index for index, *_ in views] == list(range(11))
    assert sorted(index for index, word in how.items() if word == "full") == [0, 4, 8, 9, 10]


@pytest.mark.parametrize("low", range(20, 26))
def test_a_chunk_sees_what_the_whole_plate_sees(low: int) -> None:
    whole, _ = looked(0, 60, 0, 60)
    high, more = low + 13, CADENCE - 1
    part, how = looked(low - more, high + more, low, high)
    assert part == whole[low:high]
    assert all(low <= index < high or index % CADENCE == 0 for index in how)


def test_a_reader_that_stops_early_leaves_nothing_running() -> None:
    with ThreadPoolExecutor(1) as pool:
        views = Spans(pool, Notes(), 0, 1000, depth=3).seen(frames(0, 1000))
        assert next(views).index == 0
        views.close()


def test_an_error_in_a_look_comes_out() -> None:
    class Broken(Notes):
        def full(self, frame: Frame) -> FrameView:
            if frame.index == 8:
                raise ValueError("a network is gone")
            return super().full(frame)

    with ThreadPoolExecutor(2) as pool, pytest.raises(ValueError, match="gone"):
        list(Spans(pool, Broken(), 0, 20, depth=3).seen(frames(0, 20)))
