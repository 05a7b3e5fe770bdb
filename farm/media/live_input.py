"""The near end of a live line: pictures as they arrive, the newest two of them, with the sound beside them."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from types import TracebackType
from typing import IO, Any, Self

import av
import av.error
from av import AudioStream, Packet, VideoStream
from av.container import InputContainer

from farm.errors import FarmError, InfrastructureError, InputError
from farm.media import limits
from farm.media.facts import ColourFacts, PlateFacts, VideoFacts
from farm.media.ffmpeg import Program
from farm.media.frame import Frame
from farm.media.live_endpoint import Endpoint, source_arguments
from farm.media.planes import to_planes

QUEUE = 2
"""Pictures that may wait: a live line that falls behind drops the oldest instead of showing the past."""
SILENCE_SECONDS = 15.0
_END_SECONDS = 2.0
_MOST_SOUND = 2000
_HD_LINES = 720


@dataclass(frozen=True, slots=True)
class Arrival:
    """A picture and when it came, in seconds of the monotonic clock."""

    frame: Frame
    at: float


class _Read:
    """A pipe as PyAV reads it: no seeking, and never more than what is there."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe

    def read(self, size: int) -> bytes:
        return self._pipe.read(size) or b""


class LiveInput:
    """A running source.

    Parameters
    ----------
    silence: seconds without a picture after which the source counts as gone.

    Attributes
    ----------
    facts: of the picture; the colour is BT.709 from 720 lines up and BT.601 below, since raw streams carry no tags.
    received, stale: pictures that came, and those of them that were dropped because two newer ones were waiting.
    """

    def __init__(
        self,
        end: Endpoint,
        *,
        listen: bool = False,
        silence: float = SILENCE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._end = end
        self._silence = silence
        self._clock = clock
        self._program = Program(source_arguments(end, listen=listen), stdout=True)
        self._waiting: deque[Arrival] = deque()
        self._sound: deque[Packet[Any]] = deque(maxlen=_MOST_SOUND)
        self._changed = threading.Condition()
        self._over = False
        self._stopped = False
        self._error: FarmError | None = None
        self.received = 0
        self.stale = 0
        try:
            self._container = self._opened()
            self._video: VideoStream = self._container.streams.video[0]
            self.audio: AudioStream | None = next(iter(self._container.streams.audio), None)
            self.facts = _facts(self._video)
        except BaseException:
            self._program.kill()
            raise
        self._thread = threading.Thread(target=self._read, name="live-input", daemon=True)

    @property
    def rate(self) -> float:
        """Frames a second that the source says it has."""
        return float(self.facts.video.average_rate or 25)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self._program.kill()
        self._thread.join()
        self._container.close()

    def stop(self) -> None:
        """Take no more pictures; those that wait still come out."""
        with self._changed:
            self._stopped = True
            self._changed.notify()

    def arrivals(self) -> Iterator[Arrival]:
        """Pictures, oldest of those that wait first, until the source ends or `stop`.

        InfrastructureError when it fell silent or broke.
        """
        while True:
            with self._changed:
                heard = self._changed.wait_for(lambda: self._waiting or self._over or self._stopped, self._silence)
                if self._waiting:
                    arrival = self._waiting.popleft()
                elif self._error is not None and not self._stopped:
                    raise self._error
                elif self._over and self.received == 0:
                    raise InfrastructureError(
                        "The source ended before its first picture.", where=self._end.name, do="Send for longer."
                    )
                elif heard:
                    return
                else:
                    raise InfrastructureError(
                        f"The source sent no picture for {self._silence:.0f} seconds.",
                        where=self._end.name,
                        do="Check that it is still sending.",
                    )
            yield arrival

    def sound(self) -> list[Packet[Any]]:
        """The sound that came since the last call."""
        with self._changed:
            packets = list(self._sound)
            self._sound.clear()
        return packets

    def _opened(self) -> InputContainer:
        try:
            found = av.open(_Read(self._program.stdout), "r", format="nut", options={"analyzeduration": "0"})
            if found.streams.video:
                return found
        except av.error.FFmpegError:
            pass
        _, words = self._program.finish(_END_SECONDS)
        raise InputError(
            f"The source cannot be opened: {self._hidden(words) or 'it shows no picture'}.",
            where=self._end.name,
            do="Check the address, and that a player can show it.",
        )

    def _read(self) -> None:
        error: FarmError | None = None
        try:
            streams: list[Any] = [self._video] + ([self.audio] if self.audio is not None else [])
            for packet in self._container.demux(streams):
                if self._stopped:
                    break
                self._take(packet)
        except (av.error.FFmpegError, ValueError) as broken:
            error = InfrastructureError(f"The source broke off: {type(broken).__name__}.", where=self._end.name)
        code, words = self._program.finish(_END_SECONDS) if not self._stopped else (0, "")
        if error is None and code != 0:
            error = InfrastructureError(f"The source broke off: {self._hidden(words)}.", where=self._end.name)
        with self._changed:
            self._error, self._over = error, True
            self._changed.notify()

    def _take(self, packet: Packet[Any]) -> None:
        if packet.size == 0:
            return
        if self.audio is not None and packet.stream_index == self.audio.index:
            with self._changed:
                self._sound.append(packet)
            return
        for picture in self._video.decode(packet):
            arrived = self._clock()
            planes, form = to_planes(picture)
            frame = Frame(planes, form, self.facts.video.colour, picture.pts or 0, self.received)
            with self._changed:
                self.received += 1
                if len(self._waiting) == QUEUE:
                    self._waiting.popleft()
                    self.stale += 1
                self._waiting.append(Arrival(frame, arrived))
                self._changed.notify()

    def _hidden(self, words: str) -> str:
        """The program's words without the address, which may hold a password."""
        return words.replace(self._end.address, self._end.name)


def _facts(video: VideoStream) -> PlateFacts:
    if video.width * video.height > limits.MAX_PIXELS:
        raise InputError(
            f"The picture is too large: {video.width}×{video.height}.", where="the source", do="Send a smaller one."
        )
    matrix = "bt709" if video.height >= _HD_LINES else "smpte170m"
    colour = ColourFacts(primaries=matrix, transfer="bt709", matrix=matrix, range="tv", chroma_location="left")
    return PlateFacts(
        container="nut",
        size=0,
        video=VideoFacts(
            stream_index=video.index,
            codec="rawvideo",
            width=video.width,
            height=video.height,
            sample_format="yuv420p",
            bit_depth=8,
            time_base=Fraction(video.time_base or Fraction(1, 1000)),
            average_rate=Fraction(video.average_rate) if video.average_rate else None,
            sample_aspect_ratio=Fraction(video.sample_aspect_ratio or 1),
            colour=colour,
        ),
    )
