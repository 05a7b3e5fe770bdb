"""The far end of a live line: finished pictures and the sound beside them, to the program that encodes and sends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import IO, Any, Self

import av
import av.error
from av import AudioStream, Packet

from farm.errors import FarmError, InfrastructureError
from farm.media.facts import VideoFacts
from farm.media.ffmpeg import Program
from farm.media.frame import Frame
from farm.media.live_endpoint import Endpoint, sink_arguments
from farm.media.picture import picture_of

_END_SECONDS = 20.0
"""How long the program may take to write the end of a file."""


class _Write:
    """A pipe as PyAV writes it: all of it, at once, with no way back."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe

    def write(self, data: bytes) -> int:
        rest = memoryview(data)
        while rest:
            rest = rest[self._pipe.write(rest) :]
        return len(data)


class LiveOutput:
    """A running sink. `write` blocks while the sink is slower than the line: the input then drops what grows stale.

    Parameters
    ----------
    facts: of the pictures; they are yuv420p. rate: frames a second, for the distance of key frames.
    audio: the input's sound stream, None where it has none. metadata: goes into the sink where its kind can carry it.
    """

    def __init__(
        self,
        end: Endpoint,
        facts: VideoFacts,
        *,
        rate: float,
        audio: AudioStream | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        self._end = end
        self._program = Program(sink_arguments(end, rate=rate, metadata=metadata or {}), stdin=True)
        self._facts = facts
        self._last: int | None = None
        options = {"flush_packets": "1", "max_interleave_delta": "1"}
        self._container: Any = av.open(_Write(self._program.stdin), "w", format="nut", options=options)
        self._video: Any = self._container.add_stream("rawvideo", rate=round(rate) or 25)
        context = self._video.codec_context
        context.width, context.height, context.pix_fmt = facts.width, facts.height, "yuv420p"
        context.time_base = self._video.time_base = facts.time_base
        context.sample_aspect_ratio = facts.sample_aspect_ratio
        self._sound: Any = self._container.add_stream_from_template(audio) if audio is not None else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Bring the sink to its end. FarmError where it broke, unless the block itself did."""
        try:
            with suppress(av.error.FFmpegError, OSError):
                self._container.close()
            code, words = self._program.finish(_END_SECONDS)
        finally:
            self._program.kill()
        if code != 0 and error is None:
            raise self._broken(words)

    def write(self, frame: Frame, sound: Sequence[Packet[Any]] = ()) -> bool:
        """Send a picture, and the sound that came meanwhile; whether the picture went out.

        One that is not later than the one before has no place in the stream; its sound goes out all the same.
        """
        later = self._last is None or frame.pts > self._last
        try:
            for packet in sound:
                packet.stream = self._sound
                self._container.mux(packet)
            if not later:
                return False
            self._last = frame.pts
            picture = picture_of(frame.planes, "yuv420p")
            picture.pts, picture.time_base = frame.pts, self._facts.time_base
            for packet in self._video.encode(picture):
                self._container.mux(packet)
        except (av.error.FFmpegError, OSError) as error:
            _, words = self._program.finish(_END_SECONDS)
            raise self._broken(words) from error
        return True

    def _broken(self, words: str) -> FarmError:
        said = words.replace(self._end.address, self._end.name)
        return InfrastructureError(
            f"The sink broke off: {said or 'it said nothing'}.",
            where=self._end.name,
            do="Check that it takes the stream, and that there is room.",
        )
