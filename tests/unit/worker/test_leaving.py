"""How a worker's program ends, without processes."""

from __future__ import annotations

import threading

from farm.worker.leaving import Goodbye, drain, watch
from farm.worker.notice import NoNotice


class FakeWorker:
    """Its process ends at `ends`, seconds after it was asked to stop."""

    def __init__(self, clock: Clock, ends: float) -> None:
        self.clock, self.ends, self.done = clock, ends, list[str]()

    def tend(self) -> None:
        self.done.append("tend")

    def ask_to_stop(self) -> None:
        self.done.append("asked")

    def see_off(self, why: str) -> bool:
        return self.clock.now >= self.ends

    def hand_back(self, why: str) -> None:
        self.done.append(f"handed back at {self.clock.now:.0f}")

    def wait(self, why: str) -> None:
        self.done.append(why)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Soon:
    """A notice that comes with the third question."""

    def __init__(self) -> None:
        self.asked = 0

    def seconds_left(self) -> float | None:
        self.asked += 1
        return 120.0 if self.asked == 3 else None


def test_a_notice_ends_the_watch() -> None:
    worker = FakeWorker(Clock(), 0)
    goodbye = watch([worker], threading.Event(), Soon(), lambda: None, seconds=0)
    assert (goodbye.seconds, worker.done) == (120.0, ["tend"] * 3)


def test_a_signal_ends_the_watch() -> None:
    told = threading.Event()
    told.set()
    assert watch([FakeWorker(Clock(), 0)], told, NoNotice(), lambda: None, seconds=0).seconds is None


def test_a_worker_that_is_told_to_stop_may_take_its_time() -> None:
    clock = Clock()
    worker = FakeWorker(clock, ends=500)
    drain([worker], Goodbye("Told."), clock=clock, sleep=clock.sleep)
    assert worker.done == ["asked", "Told."]
    assert clock.now == 500


def test_with_two_minutes_left_what_is_unfinished_ten_seconds_before_the_end_is_handed_back() -> None:
    clock = Clock()
    quick, slow = FakeWorker(clock, ends=30), FakeWorker(clock, ends=500)
    drain([quick, slow], Goodbye("Gone.", 120.0), clock=clock, sleep=clock.sleep)
    assert quick.done == ["asked", "Gone."]
    assert slow.done == ["asked", "handed back at 110", "Gone."]


def test_with_less_than_ten_seconds_left_all_is_handed_back_at_once() -> None:
    clock = Clock()
    worker = FakeWorker(clock, ends=5)
    drain([worker], Goodbye("Gone.", 8.0), clock=clock, sleep=clock.sleep)
    assert worker.done == ["asked", "handed back at 0", "Gone."]
