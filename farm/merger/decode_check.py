"""Decodes all of a deliverable's picture, in several parts at a time, and hands each frame to its part's check.

Parts begin with chunks, which begin with key frames, so that each can be decoded by itself. Every part also decodes the
first frame of the next one: what it refers to across the seam must be there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

from av.codec.context import ThreadType
from av.stream import Discard

from farm.media.container import open_container
from farm.media.writer import ChunkFacts
from farm.merger.clock import rescaled
from farm.merger.film import Film
from farm.merger.picture_check import PictureCheck
from farm.merger.report import Findings
from farm.merger.side_by_side import Tick

PART_FRAMES = 480
"""A part has at least so many frames, the last one more: opening a file again costs as much as some tens of frames."""
_MOST_PARTS = 8


class Part(NamedTuple):
    """Frames [first, last), and the chunks that they are."""

    first: int
    last: int
    chunks: tuple[ChunkFacts, ...]


def parts_of(chunks: Sequence[ChunkFacts], most: int, *, least_frames: int = PART_FRAMES) -> list[Part]:
    """At most `most` parts of about equal length, of whole chunks, so many that each has about `least_frames`."""
    frames = chunks[-1].last
    number = max(1, min(most, _MOST_PARTS, frames // least_frames))
    groups: list[list[ChunkFacts]] = [[]]
    for chunk in chunks:
        if groups[-1] and len(groups) < number and chunk.first >= frames * len(groups) / number:
            groups.append([])
        groups[-1].append(chunk)
    return [Part(group[0].first, group[-1].last, tuple(group)) for group in groups]


class PartCheck:
    """Decodes one part of a deliverable; what it finds is in `picture` and `findings`."""

    def __init__(self, deliverable: Path, film: Film, part: Part, stream_index: int, threads: int) -> None:
        self.findings = Findings()
        self.picture = PictureCheck(film.timeline, film.plan, part.chunks, film.shift, self.findings)
        self._deliverable, self._timeline, self._shift = deliverable, film.timeline, film.shift
        self._part, self._stream_index, self._threads = part, stream_index, threads

    def run(self, tick: Tick) -> None:
        """Raises InputError, FFmpegError where the file cannot be read or decoded."""
        try:
            for picture, time_base in self._pictures(tick):
                until = self._due(self._part.last, time_base)
                if until is not None and picture.pts is not None and picture.pts >= until:
                    return
                self.picture.add(picture, time_base)
        finally:
            self.picture.finish()

    def _pictures(self, tick: Tick) -> Iterator[tuple[Any, Fraction]]:
        """(decoded frame, time base) from the part's first frame on."""
        with open_container(self._deliverable, where="the deliverable") as container:
            stream: Any = container.streams[self._stream_index]
            for other in container.streams:
                if other.index != stream.index:
                    other.discard = Discard.all
            context, time_base = stream.codec_context, Fraction(stream.time_base)
            context.thread_type, context.thread_count = ThreadType.AUTO, self._threads
            # Broken references and bit errors must be errors here, not concealed pictures.
            context.options = {"err_detect": "explode"}
            since = None
            if self._part.first:
                since = self._due(self._part.first, time_base)
                container.seek(self._start(time_base), stream=stream)
            for packet in container.demux(stream):
                tick()
                if packet.size and packet.is_corrupt:
                    self.findings.add(
                        "corrupt", "The container marks a packet of the picture as corrupt.", pts=packet.pts
                    )
                for picture in packet.decode():
                    if since is None or picture.pts is None or picture.pts >= since:
                        yield picture, time_base

    def _start(self, time_base: Fraction) -> int:
        """Where to seek to: containers seek by dts, which is that of the pts some frames before (`join.Clock`)."""
        reorder = max(chunk.reorder for chunk in self._part.chunks)
        return self._due(max(0, self._part.first - reorder - 1), time_base) or 0

    def _due(self, frame: int, time_base: Fraction) -> int | None:
        """The pts of a frame in the deliverable's ticks; None behind the last."""
        if frame >= len(self._timeline):
            return None
        seconds = int(self._timeline.pts[frame]) * self._timeline.time_base + self._shift
        return rescaled(1, seconds, time_base)
