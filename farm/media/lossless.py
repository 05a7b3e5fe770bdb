"""Segments of frames coded anew without loss, for plates whose packets cannot be cut.

The plate is decoded once, from its first packet, as a player does; so 1 chunk and 100 chunks get the same pictures
also where the stream is damaged or has no place to start from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from farm.media.decoder import DecoderSetup
from farm.media.facts import PlateFacts
from farm.media.framefile import encode_frame
from farm.media.frameindex import FrameIndex, Want
from farm.media.planecodec import PlaneEncoder
from farm.media.reader import plate_frames
from farm.media.segmentfile import Segment, SegmentFileWriter, SegmentHeader, encode_record


def lossless_segments(
    path: Path,
    facts: PlateFacts,
    index: FrameIndex,
    wants: Iterator[Want],
    folder: Path,
    watch: Callable[[int], None] = lambda frames: None,
) -> Iterator[Segment]:
    """Segments for `wants`, which are in order, each yielded when it is complete.

    `watch` is told of every frame, by its number, and may raise to end it.
    """
    waiting = next(wants, None)
    if waiting is None:
        return
    video = facts.video
    setup = DecoderSetup(codec=video.codec, width=video.width, height=video.height, sample_format=video.sample_format)
    encoder = PlaneEncoder()
    started: list[tuple[Want, SegmentFileWriter]] = []
    try:
        for frame in plate_frames(path, facts, index, low=waiting.low):
            watch(frame.index)
            while waiting is not None and waiting.low <= frame.index:
                started.append((waiting, _start(waiting, index, setup, folder)))
                waiting = next(wants, None)
            if started:
                record = encode_record(encode_frame(frame, encoder))
                for _, file in started:
                    file.write(record)
            while started and started[0][0].high <= frame.index + 1:
                yield _finish(*started.pop(0))
            if waiting is None and not started:
                return
    finally:
        for _, file in started:
            file.abandon()


def _start(want: Want, index: FrameIndex, setup: DecoderSetup, folder: Path) -> SegmentFileWriter:
    header = SegmentHeader.of("lossless", want, index, setup)
    return SegmentFileWriter(folder / f"{want.first:09d}.segment", header)


def _finish(want: Want, file: SegmentFileWriter) -> Segment:
    size = file.close()
    return Segment(file.path, want.first, want.last, "lossless", file.records, 0, size)
