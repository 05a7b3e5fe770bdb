"""x264 veryfast alone, and behind the card: frames a second to a finished mp4, encoded as jobs encode."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
from av.codec.context import ThreadType

from bench.gpu_material import RATE, SIZE
from bench.gpu_slot import Slot
from farm.faces.stages import Behind
from farm.media.frame import Frame
from farm.media.picture import lent_picture

_AHEAD = 8
_HELD = 240


class _X264:
    """Encodes planar frames, and counts from frame `warm` on."""

    def __init__(self, container: Any, warm: int = 96) -> None:
        self._container, self._warm = container, warm
        self._stream: Any = container.add_stream("libx264", rate=RATE)
        self._stream.width, self._stream.height, self._stream.pix_fmt = *SIZE, "yuv420p"
        self._stream.options = {"preset": "veryfast"}
        self._stream.codec_context.thread_type = ThreadType.AUTO  # as chunks are encoded; else pictures are cut up
        self._index, self._start = 0, 0.0

    def write(self, frame: Frame) -> None:
        picture = lent_picture(frame.planes, "yuv420p")
        picture.pts, picture.time_base = self._index, Fraction(1, RATE)
        self._container.mux(self._stream.encode(picture))
        if self._index == self._warm:
            self._start = time.perf_counter()
        self._index += 1

    @property
    def seconds(self) -> float:
        """Since the counting began."""
        return time.perf_counter() - self._start if self._start else 0.0

    @property
    def rate(self) -> float:
        return (self._index - self._warm - 1) / self.seconds

    def close(self) -> None:
        self._container.mux(self._stream.encode(None))


def encode(frames: Iterable[Frame], path: Path, seconds: float) -> float:
    """Frames a second of encoding in a thread of its own, as a render task does."""
    with av.open(str(path), "w") as container:
        encoder = _X264(container)
        with Behind(encoder.write, _AHEAD) as encoding:
            for frame in frames:
                encoding.put(frame)
                if encoder.seconds >= seconds:
                    break
            rate = encoder.rate
        encoder.close()
    return rate


def encoder_alone(slot: Slot, frames: int, path: Path, seconds: float) -> float:
    """The job's own pictures from memory, so that nothing but the encoder works: a stand-in's noise costs it bits."""
    with closing(slot.endless(frames)) as rendered:
        held = [one.frame for one, _ in zip(rendered, range(_HELD), strict=False)]

    def again() -> Iterator[Frame]:
        while True:
            yield from held

    return encode(again(), path, seconds)


def to_mp4(slot: Slot, frames: int, path: Path, seconds: float) -> float:
    """The job's frames, chunk after chunk of so many, behind the card."""
    with closing(slot.endless(frames)) as rendered:
        return encode((one.frame for one in rendered), path, seconds)
