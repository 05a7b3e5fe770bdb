"""Look at single frames in the middle of a plate, without decoding all that comes before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

import av.error
from av.codec.context import ThreadType

from farm.media.container import open_container, picture_stream
from farm.media.decoder import DecoderSetup
from farm.media.facts import PlateFacts
from farm.media.frame import Frame
from farm.media.frames import FrameMaker

_BACK = (0, 1, 4)
"""Seconds before the frame to seek to, one try after the other."""


_MOST_BEFORE = 400
"""Packets to pass over in search of one: where there is no index, a seek ends some seconds away."""
_SHRINKING = frozenset(("mpeg1video", "mpeg2video", "mjpeg"))
"""Codecs whose decoder can leave out what only a larger picture shows."""
_ROUGH_SIDE = 320


class Peeker:
    """Opens the plate at the first look and keeps it open until `close`.

    `rough`: frames may be smaller than the plate's and less clean, which takes less time; the same ones every time.
    """

    def __init__(self, path: Path, facts: PlateFacts, *, rough: bool = False) -> None:
        self._path, self._facts = path, facts
        self._options = _rough_options(facts) if rough else {}
        self._maker = FrameMaker(facts.video.colour)
        self._opened = ExitStack()
        self._container: Any = None
        self._stream: Any = None
        self._single: Any = None

    def look(self, start: int, wanted: Mapping[int, int], *, most: int) -> Iterator[Frame]:
        """The frames whose pts (ticks of the plate) are keys of `wanted`, in order, numbered by its values.

        Decoding starts at the key frame at or before pts `start` and ends after `most` pictures. What the container's
        index or the decoder does not find is left out: this is for guesses, not for frames that must come out. Raises
        InputError where the plate cannot be opened.
        """
        if self._container is None:
            self._open()
        last = max(wanted)
        try:
            for number, picture in enumerate(self._from(start), 1):
                if picture.pts is not None and picture.pts in wanted:
                    yield self._maker.make(picture, picture.pts, wanted[picture.pts])
                if number == most or (picture.pts is not None and picture.pts >= last):
                    return
        except av.error.FFmpegError:
            return

    def key(self, pts: int, number: int) -> Frame | None:
        """The key frame at `pts` as number `number`, decoded by itself; None where it is not found. InputError."""
        if self._container is None:
            self._open()
        try:
            for seconds in _BACK:
                self._container.seek(pts - int(seconds / self._facts.video.time_base), stream=self._stream)
                for packet in islice(self._container.demux(self._stream), _MOST_BEFORE):
                    if packet.pts == pts and packet.is_keyframe:
                        return self._alone(packet, pts, number)
                    if packet.dts is not None and packet.dts > pts:
                        break
        except av.error.FFmpegError:
            pass
        return None

    def _alone(self, packet: Any, pts: int, number: int) -> Frame | None:
        for picture in (*self._single.decode(packet), *self._single.decode(None)):
            self._single.flush_buffers()
            return self._maker.make(picture, pts, number)
        return None

    def _from(self, start: int) -> Iterator[Any]:
        """Pictures from `start` on, or from farther back: where there is no index, a container seeks by guessing."""
        for seconds in _BACK:
            self._container.seek(start - int(seconds / self._facts.video.time_base), stream=self._stream)
            pictures = self._container.decode(self._stream)
            first = next(pictures, None)
            if first is not None and first.pts is not None and first.pts <= start:
                yield first
                yield from pictures
                return

    def _open(self) -> None:
        self._container = self._opened.enter_context(open_container(self._path))
        self._stream = picture_stream(self._container, self._facts.video.stream_index)
        self._stream.codec_context.thread_type = ThreadType.AUTO
        self._stream.codec_context.options = self._options
        self._single = DecoderSetup.of(self._stream.codec_context).open(threads=1)
        self._single.options = {**self._single.options, **self._options}

    def close(self) -> None:
        self._opened.close()
        self._container = self._stream = None


def _rough_options(facts: PlateFacts) -> dict[str, str]:
    """What a decoder is told to do less well."""
    options, video = {"skip_loop_filter": "all"}, facts.video
    if video.codec in _SHRINKING:
        halvings = (max(video.width, video.height) // _ROUGH_SIDE).bit_length() - 1
        options["lowres"] = str(max(0, min(3, halvings)))
    return options
