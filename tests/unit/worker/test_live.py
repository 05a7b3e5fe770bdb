"""The live line on made-up ends: what is shown, dropped and counted, and when."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from farm.faces.mapping import Mapping
from farm.faces.pipeline import FacePipeline
from farm.media import stamp
from farm.media.frame import Frame
from farm.media.live_input import Arrival, LiveInput
from farm.media.live_output import LiveOutput
from farm.recipe import preset
from farm.worker.live import LiveLine
from tests.unit.faces import people


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Ends:
    """Both ends: `count` pictures at 25 a second, and what came out, each taking `cost` seconds to send."""

    def __init__(self, clock: Clock, count: int, cost: float) -> None:
        self.received = self.stale = 0
        self.stuck: set[int] = set()
        """Pictures whose time stamp is that of the one before."""
        self.shown: list[Frame] = []
        self._clock, self._count, self._cost = clock, count, cost
        self._stopped = False

    def arrivals(self) -> Iterator[Arrival]:
        for number in range(self._count):
            if self._stopped:
                return
            self._clock.now = max(self._clock.now, 100.0 + number / 25)
            self.received += 1
            frame = people.frame(np.full((16, 400), 50, np.uint8), index=number)
            frame.pts -= 10 * (number in self.stuck)
            yield Arrival(frame, 100.0 + number / 25)

    def stop(self) -> None:
        self._stopped = True

    def sound(self) -> list[Any]:
        return [SimpleNamespace(number=len(self.shown))]

    def write(self, frame: Frame, sound: list[Any]) -> bool:
        assert sound[0].number == len(self.shown)
        self._clock.now += self._cost
        if self.shown and frame.pts <= self.shown[-1].pts:
            return False
        self.shown.append(frame)
        return True


def line(ends: Ends, clock: Clock, **changes: Any) -> LiveLine:
    pipeline = FacePipeline(preset("passthrough"), Mapping(), {}, cast(Any, None), people.facts())
    given: dict[str, Any] = {"marks": None, "after": 0, "budget": 0.2} | changes
    return LiveLine(cast(LiveInput, ends), cast(LiveOutput, ends), pipeline, clock=clock, **given)


def test_a_picture_that_is_not_later_than_the_one_before_is_not_counted_as_shown() -> None:
    clock = Clock()
    ends = Ends(clock, 20, 0.01)
    ends.stuck = {5, 11}
    report = line(ends, clock).run()
    assert (report.received, report.shown, report.out_of_time) == (20, 18, 2)
    assert len(ends.shown) == report.shown


def test_in_time_every_picture_is_shown_once() -> None:
    clock = Clock()
    ends = Ends(clock, 50, 0.01)
    report = line(ends, clock).run()
    assert [frame.pts for frame in ends.shown] == [10 * n for n in range(50)]
    assert (report.received, report.shown, report.left_out, report.cadence) == (50, 50, 0, 1)
    assert report.delay_ms == 10.0


def test_a_line_that_is_too_slow_shows_fewer_pictures() -> None:
    clock = Clock()
    ends = Ends(clock, 200, 0.1)
    report = line(ends, clock).run()
    assert report.shown + report.left_out == 200
    assert report.left_out > 50
    assert (report.cadence, report.stride) == (8, 4)


def test_the_time_of_arrival_is_burnt_in() -> None:
    clock = Clock()
    ends = Ends(clock, 3, 0.01)
    line(ends, clock, stamped=True, wall=lambda: clock.now + 1_000_000).run()
    times = [stamp.read(np.asarray(frame.planes[0], np.uint8)) for frame in ends.shown]
    assert times == [1_000_100_000, 1_000_100_040, 1_000_100_080]


def test_it_stops_when_the_time_is_over_and_tells_once_a_second() -> None:
    clock, told = Clock(), []
    ends = Ends(clock, 1000, 0.01)
    report = line(ends, clock, tell=lambda found: told.append(found.shown)).run(seconds=2.0)
    assert 50 <= report.shown <= 52
    assert len(told) == 2
