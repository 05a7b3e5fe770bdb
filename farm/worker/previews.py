"""What a render looks like right now: plate and result side by side, a small picture a second, for people who watch.

The render never waits for it: the picture is taken of frames that pass by, a thread of its own encodes and stores it,
and what was not sent yet is replaced by what is newer.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Self

import cv2
import numpy as np
import structlog
from numpy.typing import NDArray

from farm.errors import FarmError
from farm.media.facts import PlateFacts
from farm.media.frame import Frame
from farm.media.preview import upright_preview

log = structlog.get_logger(__name__)

SIDE = 480
"""Longest side of each of the two pictures, in pixels."""
QUALITY = 80
_GAP = 4
_UNDER_WAY = 16
"""Pictures of the plate whose results are not there yet: a card's line holds seconds of film."""

Picture = NDArray[np.uint8]


class Previews:
    """The previews of one chunk.

    `watched` passes the plate's frames through and keeps a small copy of one where a preview is due; `rendered` takes
    the result of that very frame.

    Parameters
    ----------
    send: stores the bytes of a JPEG; a FarmError from it is logged and costs that preview only.
    forget: removes what was stored; called once, when the block ends.
    plate, result: the facts of the pictures before and after (they differ where a recipe enlarges).
    first, last: frames of the chunk; those around it are read for context and never come out.
    seconds: from one preview to the next; 0: none is made.
    """

    def __init__(
        self,
        send: Callable[[bytes], object],
        forget: Callable[[], object],
        plate: PlateFacts,
        result: PlateFacts,
        first: int,
        last: int,
        *,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._send = send
        self._forget = forget
        self._plate = plate
        self._result = result
        self._range = range(first, last)
        self._seconds = seconds
        self._clock = clock
        self._due = clock() if seconds else math.inf
        self._taken: dict[int, Picture] = {}
        self._box = _Newest()
        self._thread = threading.Thread(target=self._run, name="previews", daemon=True)

    def watched(self, frames: Iterable[Frame]) -> Iterator[Frame]:
        """`frames`, untouched. A generator, so that it is closed with its consumer."""
        for frame in frames:
            if self.wants(frame.index):
                self.seen(frame)
            yield frame

    def wants(self, index: int) -> bool:
        """Whether the plate's frame `index` is to be shown to `seen`: for frames that are not at hand as they pass."""
        return len(self._taken) < _UNDER_WAY and index in self._range and self._clock() >= self._due

    def seen(self, frame: Frame) -> None:
        """Keep a small copy of a frame of the plate."""
        self._taken[frame.index] = upright_preview(frame, self._plate, SIDE)[0]
        self._due = self._clock() + self._seconds

    def rendered(self, frame: Frame) -> None:
        """The finished frame, label and all."""
        taken = self._taken.pop(frame.index, None)
        if taken is not None:
            self._box.put((taken, upright_preview(frame, self._result, SIDE)[0]))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._box.close()
        self._thread.join()
        with suppress(FarmError):  # what stays is replaced by the next attempt, and goes with the job
            self._forget()

    def _run(self) -> None:
        while (pair := self._box.take()) is not None:
            try:
                self._send(side_by_side(*pair))
            except FarmError as error:
                log.info("a preview was not stored", error=str(error))


class _Newest:
    """Room for one pair of pictures: a newer one takes the place of one that nobody fetched."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._pair: tuple[Picture, Picture] | None = None
        self._closed = False

    def put(self, pair: tuple[Picture, Picture]) -> None:
        with self._changed:
            self._pair = pair
            self._changed.notify()

    def take(self) -> tuple[Picture, Picture] | None:
        """The newest pair, waited for; None once closed, whatever was left: nobody watches what is over."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._pair is not None)
            pair, self._pair = self._pair, None
            return None if self._closed else pair

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()


def side_by_side(plate: Picture, result: Picture) -> bytes:
    """A JPEG of plate and result, uint8 BGR (h, w, 3) each; the result is shown in the plate's size."""
    if result.shape != plate.shape:
        result = np.asarray(
            cv2.resize(result, (plate.shape[1], plate.shape[0]), interpolation=cv2.INTER_AREA), np.uint8
        )
    gap = np.full((plate.shape[0], _GAP, 3), 255, np.uint8)
    _, data = cv2.imencode(".jpg", np.hstack([plate, gap, result]), [cv2.IMWRITE_JPEG_QUALITY, QUALITY])
    return data.tobytes()
