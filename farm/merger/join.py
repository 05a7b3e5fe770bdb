"""Chunk files as one stream of packets with the plate's exact clock.

NUT files are read packet by packet and written as fragmented MP4 for the muxer to read; MP4 and QuickTime files are
read by the muxer itself (`farm.merger.reel`).

One chunk file is open at a time. A packet's pts is the plate's; dts is made anew for the whole: the pts of the frame
that lies `reorder` places before it in presentation order. That is increasing, never after pts, and has no seam.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from fractions import Fraction
from pathlib import Path
from typing import IO, Any, NamedTuple

import av
import av.error
import numpy as np
from numpy.typing import NDArray

from farm.errors import FarmError
from farm.media.timeline import Timeline
from farm.media.writer import ChunkFacts
from farm.words import counted

# Fragments bound what the reader must hold; mp4 keeps dts and any time base, which NUT and Matroska do not.
_FRAGMENT_BYTES = 4_000_000
_WRITE_BYTES = 1 << 20
# A chunk's header says all that joining needs; decoding its first pictures to learn more costs more than reading it.
_HEADER_ONLY = {"probesize": "32", "analyzeduration": "0", "codec_whitelist": "none"}
QUICKTIME_ONLY = frozenset({"prores", "dnxhd"})


class ChunkFile(NamedTuple):
    """A chunk's file and what its writer said of it; `sha256` is the file's where it was found already, as it came."""

    path: Path
    facts: ChunkFacts
    sha256: str | None = None


class Joined(NamedTuple):
    """A packet with its place in the whole: `pts`, `dts`, `duration` in the timeline's ticks."""

    packet: Any
    pts: int
    dts: int
    duration: int


def damaged(chunk: ChunkFacts, what: str) -> FarmError:
    """The error for a chunk file that is not what the plan says."""
    return FarmError(
        what,
        where=f"chunk of frames {chunk.first} to {chunk.last - 1} (pts {chunk.first_pts} to {chunk.last_pts})",
        do="Render this chunk again.",
    )


class Clock:
    """dts for the whole film, in presentation ticks of the timeline."""

    def __init__(self, timeline: Timeline, reorder: int) -> None:
        self._pts = timeline.pts
        self._end = timeline.end_pts(len(timeline))
        self._reorder = reorder
        head = timeline.duration[: reorder + 1]
        self._step = max(1, int(head.min())) if len(head) else 1

    def all_dts(self, first: int, last: int) -> NDArray[np.int64]:
        """The same of the packets [first, last) in decoding order; there may be one more than frames."""
        places = np.arange(first, last) - self._reorder
        late = np.append(self._pts, self._end)[np.maximum(places, 0)]
        return np.where(places >= 0, late, self._pts[0] + places * self._step)

    def dts(self, number: int) -> int:
        """The dts of the packet that is `number`th in decoding order."""
        place = number - self._reorder
        return int(self._pts[place]) if place >= 0 else int(self._pts[0]) + place * self._step


def is_boxed(chunk: ChunkFile) -> bool:
    """Whether a chunk file is MP4 or QuickTime, which keep each packet in one piece, rather than NUT. OSError."""
    with chunk.path.open("rb") as file:
        return file.read(8)[4:] == b"ftyp"


@contextmanager
def open_chunk(chunk: ChunkFile, *, header_only: bool = True) -> Iterator[tuple[Any, Any]]:
    """(container, video stream) of a chunk file; FarmError where it is not there or no video.

    `header_only` leaves out what only a look at the pictures tells (the sample format).
    """
    options = dict(_HEADER_ONLY) if header_only else {}
    try:
        kind = "mov" if is_boxed(chunk) else "nut"
        if kind == "mov":
            options["ignore_editlist"] = "1"
        container = av.open(str(chunk.path), "r", format=kind, options=options)
    except (av.error.FFmpegError, OSError) as error:
        raise damaged(chunk.facts, f"The chunk's file cannot be opened: {type(error).__name__}.") from error
    with container:
        if len(container.streams.video) != 1 or len(container.streams) != 1:
            raise damaged(
                chunk.facts, f"The chunk's file holds {counted(len(container.streams), 'stream')}, not one picture."
            )
        yield container, container.streams.video[0]


def joined_packets(chunks: Sequence[ChunkFile], timeline: Timeline) -> Iterator[Joined]:
    """Every chunk's packets in decoding order. FarmError names the chunk and the pts where one is not as planned."""
    clock = Clock(timeline, max(chunk.facts.reorder for chunk in chunks))
    number = 0
    for chunk in chunks:
        for packet, index in _packets(chunk, timeline):
            pts, dts = int(timeline.pts[index]), clock.dts(number)
            if dts > pts:
                raise damaged(chunk.facts, f"The packet of frame {index} (pts {pts}) comes later than its dts {dts}.")
            yield Joined(packet, pts, dts, int(timeline.duration[index]))
            number += 1


def _packets(chunk: ChunkFile, timeline: Timeline) -> Iterator[tuple[Any, int]]:
    """(packet, frame index) of one chunk; each frame exactly once."""
    facts = chunk.facts
    due = timeline.pts[facts.first : facts.last]
    seen = np.zeros(len(due), np.bool_)
    with open_chunk(chunk) as (container, stream):
        check_headers(facts, stream)
        ticks = Fraction(stream.time_base) / timeline.time_base
        try:
            for packet in container.demux(stream):
                if packet.size == 0:
                    continue
                pts = facts.first_pts + packet.pts * ticks
                place = int(np.searchsorted(due, int(pts)))
                if place == len(due) or due[place] != pts or seen[place]:
                    raise damaged(facts, f"A packet has pts {pts}, which is no frame of the plan or comes twice.")
                if not seen.any() and not packet.is_keyframe:
                    raise damaged(facts, f"The first packet (pts {pts}) is no key frame.")
                seen[place] = True
                yield packet, facts.first + place
        except av.error.FFmpegError as error:
            raise damaged(facts, f"The chunk's file breaks off: {type(error).__name__}.") from error
    if not seen.all():
        missing = facts.first + int(np.argmin(seen))
        raise damaged(facts, f"{counted(int((~seen).sum()), 'frame')} missing, the first is frame {missing}.")


def check_headers(facts: ChunkFacts, stream: Any) -> None:
    """FarmError where an open chunk's decoder set-up or size is not what its facts say."""
    found = hashlib.sha256(bytes(stream.codec_context.extradata or b"")).hexdigest()
    # QuickTime adds atoms of its own to ProRes and DNxHR, which have no extradata when they come from the encoder.
    if found != facts.extradata_sha256 and stream.codec_context.codec.canonical_name not in QUICKTIME_ONLY:
        raise damaged(
            facts, f"The decoder's set-up data is {found[:12]}…, the plan says {facts.extradata_sha256[:12]}…."
        )
    size = stream.codec_context.width, stream.codec_context.height
    if size != (facts.width, facts.height):
        raise damaged(facts, f"The picture is {size[0]}×{size[1]} instead of {facts.width}×{facts.height}.")


def write_joined(chunks: Sequence[ChunkFile], timeline: Timeline, pipe: IO[bytes]) -> None:
    """Write the joined stream to `pipe`, packet by packet, as fragmented MP4 (QuickTime for ProRes and DNxHR).

    Ticks there are 1/denominator of the timeline's time base, counted from the first packet's dts: fragments start at
    zero, so the muxer must add `first_dts` back.
    """
    base = timeline.time_base
    with open_chunk(chunks[0], header_only=False) as (_, template):
        quicktime = template.codec_context.codec.canonical_name in QUICKTIME_ONLY
        output: Any = av.open(
            pipe,
            "w",
            format="mov" if quicktime else "mp4",
            options={
                "movflags": "+empty_moov+default_base_moof",
                "frag_size": str(_FRAGMENT_BYTES),
                "use_editlist": "0",
                "avoid_negative_ts": "disabled",
                "video_track_timescale": str(base.denominator),
                "strict": "experimental",
            },
            buffer_size=_WRITE_BYTES,
        )
        stream = output.add_stream_from_template(template, opaque=True)
    tick = Fraction(1, base.denominator)
    stream.time_base = tick
    try:
        for joined in joined_packets(chunks, timeline):
            packet = joined.packet
            packet.time_base = tick
            packet.pts = joined.pts * base.numerator
            packet.dts = joined.dts * base.numerator
            packet.duration = joined.duration * base.numerator
            packet.stream = stream
            output.mux_one(packet)
        output.close()
    except BaseException:
        # The reader is killed; what closing says about that must not hide the reason.
        with suppress(Exception):
            output.close()
        raise


def first_dts(chunks: Sequence[ChunkFile], timeline: Timeline) -> int:
    """The first packet's dts in ticks of 1/denominator of the time base."""
    clock = Clock(timeline, max(chunk.facts.reorder for chunk in chunks))
    return clock.dts(0) * timeline.time_base.numerator
