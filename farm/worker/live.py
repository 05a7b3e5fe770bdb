"""One live stream through the face pipeline: the newest pictures, label and all, inside a latency budget."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import quantiles
from typing import Protocol

from farm.faces.pipeline import FacePipeline
from farm.faces.report import Outcome
from farm.media import stamp
from farm.media.frame import Frame
from farm.media.live_input import LiveInput
from farm.media.live_output import LiveOutput
from farm.worker.live_pace import Pace

_KEPT_DELAYS = 10_000


class Marks(Protocol):
    """Blends a mark into a frame, in place."""

    def apply(self, frame: Frame) -> None: ...


@dataclass
class LiveReport:
    """What became of the pictures. `shown`, `stale`, `left_out`, `out_of_time` and what is under way at the end add
    up to `received`.

    `stale` were dropped because newer ones waited, `left_out` to lower the rate, `out_of_time` because their time stamp
    was not later than that of the picture before. Delays are milliseconds from a picture's arrival until it was handed
    to the encoder: median and 95th percentile of the last 10,000.
    """

    received: int = 0
    shown: int = 0
    swapped: int = 0
    without_face: int = 0
    stale: int = 0
    left_out: int = 0
    out_of_time: int = 0
    cadence: int = 1
    stride: int = 1
    delay_ms: float | None = None
    delay_95_ms: float | None = None


class LiveLine:
    """Runs a source through a pipeline into a sink.

    Parameters
    ----------
    marks: the visible label; None where a grant allows a clean picture.
    after: pictures that are waited for before one is shown, for smoothing.
    budget: seconds; see Pace.
    stamped: burn the time of arrival (milliseconds of the clock on the wall) into each picture.
    tell: hears the report about once a second.
    """

    def __init__(
        self,
        source: LiveInput,
        sink: LiveOutput,
        pipeline: FacePipeline,
        *,
        marks: Marks | None,
        after: int,
        budget: float,
        stamped: bool = False,
        tell: Callable[[LiveReport], None] = lambda report: None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._source = source
        self._sink = sink
        self._pipeline = pipeline
        self._marks = marks
        self._after = after
        self._stamped = stamped
        self._tell = tell
        self._clock = clock
        self._wall = wall
        self._pace = Pace(budget)
        self._arrived: dict[int, float] = {}
        self._stamps: dict[int, int] = {}
        self._delays: deque[float] = deque(maxlen=_KEPT_DELAYS)
        self.report = LiveReport()

    def run(self, *, seconds: float | None = None) -> LiveReport:
        """Until the source ends, or for `seconds`. Errors of the ends are raised; the report stays readable."""
        begun = told = self._clock()
        rendered = self._pipeline.follow(self._frames(), after=self._after, cadence=lambda: self._pace.cadence)
        for item in rendered:
            frame, faces = item.frame, item.report.faces
            if not self._show(frame):
                self._arrived.pop(frame.index)
                self.report.out_of_time += 1
                continue
            now = self._clock()
            delay = now - self._arrived.pop(frame.index)
            self._pace.saw(now, delay, faces=bool(faces) or not self._pipeline.looks)
            self._delays.append(delay * 1000)
            self.report.shown += 1
            self.report.swapped += any(face.outcome is Outcome.SWAPPED for face in faces)
            self.report.without_face += self._pipeline.looks and not faces
            if now - told >= 1:
                told = now
                self._tell(self._summed())
            if seconds is not None and now - begun >= seconds:
                self._source.stop()
        return self._summed()

    def stopped(self) -> LiveReport:
        """The report of a line that was broken off."""
        self._source.stop()
        return self._summed()

    def _frames(self) -> Iterator[Frame]:
        """The pictures that are worked on, counted anew: a gap in the numbers would be a gap in time to the tracker."""
        number = 0
        for turn, arrival in enumerate(self._source.arrivals()):
            if turn % self._pace.stride:
                self.report.left_out += 1
                continue
            frame = arrival.frame
            frame.index = number
            self._arrived[number] = arrival.at
            if self._stamped:
                self._stamps[number] = round((self._wall() - (self._clock() - arrival.at)) * 1000)
            number += 1
            yield frame

    def _show(self, frame: Frame) -> bool:
        """Whether the sink took it."""
        if self._marks is not None:
            self._marks.apply(frame)
        if self._stamped:
            stamp.burn(frame, self._stamps.pop(frame.index))
        return self._sink.write(frame, self._source.sound())

    def _summed(self) -> LiveReport:
        report = self.report
        report.received, report.stale = self._source.received, self._source.stale
        report.cadence, report.stride = self._pace.cadence, self._pace.stride
        if len(self._delays) > 1:
            cuts = quantiles(self._delays, n=20)
            report.delay_ms, report.delay_95_ms = round(cuts[9], 1), round(cuts[18], 1)
        return report
