"""Previews: plate and result of the same frame, never waited for, gone at the end."""

import threading
from collections.abc import Callable

import cv2
import numpy as np

from farm.errors import InfrastructureError
from farm.media.frame import Frame
from farm.worker.previews import SIDE, Previews, side_by_side
from tests.unit.faces import people


def frames(count: int, level: int = 60) -> list[Frame]:
    return [people.frame(np.full((240, 320), level, np.uint8), index=i) for i in range(count)]


class Wall:
    """Takes what is sent; each picture can be waited for."""

    def __init__(self, *, fails: bool = False) -> None:
        self.pictures: list[bytes] = []
        self.arrived = threading.Semaphore(0)
        self.gone = 0
        self._fails = fails

    def send(self, picture: bytes) -> None:
        self.pictures.append(picture)
        self.arrived.release()
        if self._fails:
            raise InfrastructureError("The store is away.", where="store", do="Wait.")

    def forget(self) -> None:
        self.gone += 1


def previews(wall: Wall, *, first: int, last: int, clock: Callable[[], float], seconds: float = 1.0) -> Previews:
    facts = people.facts()
    return Previews(wall.send, wall.forget, facts, facts, first, last, seconds=seconds, clock=clock)


def brightened(frame: Frame) -> Frame:
    frame.planes[0][:] = 200
    return frame


def test_plate_and_result_of_one_frame_stand_side_by_side() -> None:
    wall = Wall()
    with previews(wall, first=2, last=4, clock=lambda: 0.0) as made:
        for frame in made.watched(frames(6)):
            made.rendered(brightened(frame))
        assert wall.arrived.acquire(timeout=5)
    shown = cv2.imdecode(np.frombuffer(wall.pictures[0], np.uint8), cv2.IMREAD_GRAYSCALE)
    assert shown is not None
    assert shown.shape == (240, 2 * 320 + 4)
    assert shown[:, :300].mean() < 90 < 180 < shown[:, 344:].mean()
    assert (len(wall.pictures), wall.gone) == (1, 1)


def test_the_next_one_is_due_after_its_time_and_frames_of_context_are_never_taken() -> None:
    wall, now = Wall(), 0.0
    with previews(wall, first=1, last=9, clock=lambda: now) as made:
        for frame in made.watched(frames(12)):
            now = frame.index * 0.4
            made.rendered(frame)
            if frame.index in (1, 4, 7):  # the first of the chunk, and each first one a second later
                assert wall.arrived.acquire(timeout=5)
    assert len(wall.pictures) == 3


def test_results_that_come_seconds_later_still_make_one_a_second() -> None:
    wall, now = Wall(), 0.0
    with previews(wall, first=0, last=40, clock=lambda: now) as made:
        line: list[Frame] = []
        for frame in made.watched(frames(40)):
            now = frame.index * 0.1
            line.append(frame)
            if len(line) > 25:  # under way in a card's line
                made.rendered(line.pop(0))
                if line[0].index - 1 in (0, 11):
                    assert wall.arrived.acquire(timeout=5)
        for frame in line:
            made.rendered(frame)
            if frame.index in (21, 31):
                assert wall.arrived.acquire(timeout=5)
    assert len(wall.pictures) == 4


def test_a_store_that_is_away_costs_the_preview_only() -> None:
    wall = Wall(fails=True)
    with previews(wall, first=0, last=3, clock=lambda: 0.0) as made:
        assert [made.rendered(frame) for frame in made.watched(frames(3))] == [None] * 3
        assert wall.arrived.acquire(timeout=5)
    assert wall.gone == 1


def test_a_slow_store_holds_nothing_back_and_gets_the_newest() -> None:
    now, held, sent = 0.0, threading.Event(), []
    begun = threading.Semaphore(0)

    def send(picture: bytes) -> None:
        begun.release()
        held.wait(5)
        sent.append(picture)

    facts = people.facts()
    with Previews(send, lambda: None, facts, facts, 0, 9, seconds=1, clock=lambda: now) as made:
        for frame in made.watched(frames(9)):
            now += 1.0
            frame.planes[0][:] = 25 * frame.index
            made.rendered(frame)
            if frame.index == 0:
                assert begun.acquire(timeout=5)  # the store is busy with the first one from here on
        held.set()
        assert begun.acquire(timeout=5)
    results = [cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_GRAYSCALE)[:, 344:].mean() for data in sent]
    assert len(results) == 2  # those between were replaced
    assert results[0] < 30
    assert results[1] > 180


def test_zero_seconds_make_none() -> None:
    wall = Wall()
    with previews(wall, first=0, last=9, clock=lambda: 1e9, seconds=0) as made:
        for frame in made.watched(frames(9)):
            made.rendered(frame)
    assert wall.pictures == []


def test_pictures_are_small_and_a_larger_result_is_shown_in_the_plates_size() -> None:
    plate = np.zeros((270, SIDE, 3), np.uint8)
    picture = cv2.imdecode(np.frombuffer(side_by_side(plate, np.zeros((540, 960, 3), np.uint8)), np.uint8), 1)
    assert picture is not None
    assert picture.shape == (270, 2 * SIDE + 4, 3)
