"""Read frames: of a whole plate, or of a chunk from its segment. The same frames, bit for bit, either way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from av import Packet

from farm.errors import InputError, PlanMismatchError
from farm.media.decoder import DecodeLog, decode_packets
from farm.media.facts import PlateFacts
from farm.media.frame import Frame
from farm.media.framefile import decode_frame
from farm.media.frameindex import FrameIndex
from farm.media.frames import CardFrameMaker, FrameMaker, ReadReport, assemble
from farm.media.nvdec import card_decoder
from farm.media.packets import open_packets
from farm.media.planecodec import PlaneDecoder
from farm.media.scan import scan_timeline
from farm.media.segmentfile import SegmentFileReader, SegmentHeader
from farm.media.timeline import Timeline


def read_plate(
    path: Path,
    facts: PlateFacts,
    timeline: Timeline | None = None,
    *,
    report: ReadReport | None = None,
    threads: int = 0,
) -> Iterator[Frame]:
    """Every frame of the timeline (scanned first where none is given), in bounded memory.

    `report` is filled while reading. `threads` 0 means one a core. Raises InputError, NotFoundError,
    PlanMismatchError (see `farm.media.frames.assemble`).
    """
    index = FrameIndex.of(timeline if timeline is not None else scan_timeline(path, facts))
    yield from plate_frames(path, facts, index, report=report, threads=threads)


def plate_frames(
    path: Path,
    facts: PlateFacts,
    index: FrameIndex,
    *,
    low: int = 0,
    report: ReadReport | None = None,
    threads: int = 0,
) -> Iterator[Frame]:
    """Frames from `low` on, decoded from the first packet on; the index may still grow while this runs."""
    log = DecodeLog()
    # What becomes of a fault depends on which thread comes first; with one thread it is the same every time.
    threads = 1 if index.is_damaged else threads
    with open_packets(path, facts) as reader:
        decoded = decode_packets(reader.setup, reader.numbered([]), log, threads=threads)
        frames = assemble(decoded, index, FrameMaker(facts.video.colour), log, low=low)
        yield from _reported(frames, log, report)


def read_segment(
    path: Path,
    facts: PlateFacts,
    timeline: Timeline,
    first: int,
    last: int,
    *,
    report: ReadReport | None = None,
    threads: int = 0,
    on_card: bool = False,
) -> Iterator[Frame]:
    """Frames [first, last) of the timeline from a segment file, in bounded memory.

    on_card: decode on the card and leave the samples there (CardFrame); `segment_decoder` says whether that is right.

    The range may be the chunk's own or reach into its context; of the timeline only that part is needed (and earlier
    entries, so that indexes are right). Raises InputError where the segment does not hold it,
    InfrastructureError where the file is damaged, PlanMismatchError.
    """
    with SegmentFileReader(path) as segment:
        header = segment.header
        if not header.low <= first < last <= header.high:
            raise InputError(
                f"The segment holds frames {header.low} to {header.high - 1}, not {first} to {last - 1}.",
                where="the segment",
                do="Ask for its own frames, or cut it with more context.",
            )
        if header.coding == "lossless":
            yield from _coded_anew(segment, first, last, report)
            return
        _check_same_plan(header, timeline, first, last)
        log = DecodeLog()
        threads = 1 if len(timeline.concealed) or len(timeline.damaged) else threads
        # A plan by packets promised that nothing is wrong: the decoder must not make the best of what is.
        exacting = not timeline.decoded
        hardware = card_decoder() if on_card else None
        packets = _numbered(segment)
        decoded = decode_packets(header.setup, packets, log, threads=threads, exacting=exacting, hardware=hardware)
        colour = facts.video.colour
        maker = CardFrameMaker(colour, facts.video.sample_format) if on_card else FrameMaker(colour)
        index = FrameIndex(header.low)
        index.extend(header.frames)
        index.know_damage(timeline)
        frames = assemble(decoded, index, maker, log, low=first, high=last, strict=exacting)
        yield from _reported(frames, log, report)


def _check_same_plan(header: SegmentHeader, timeline: Timeline, first: int, last: int) -> None:
    planned = [pts for _, pts in header.frames[first - header.low : last - header.low]]
    if planned != timeline.pts[first:last].tolist():
        raise PlanMismatchError(
            f"The segment was cut for other time stamps of frames {first} to {last - 1} than the timeline has.",
            where="the segment",
            do="Plan and cut the plate again.",
        )


def _numbered(segment: SegmentFileReader) -> Iterator[Packet[Any]]:
    return (packet.to_av() for packet in segment)


def _coded_anew(segment: SegmentFileReader, first: int, last: int, report: ReadReport | None) -> Iterator[Frame]:
    planes = PlaneDecoder()
    for record in segment:
        if first <= record.ordinal < last:
            frame = decode_frame(record, planes)
            _note(frame, report)
            yield frame


def _reported(frames: Iterator[Frame], log: DecodeLog, report: ReadReport | None) -> Iterator[Frame]:
    for frame in frames:
        _note(frame, report)
        yield frame
    if report is not None:
        report.errors.extend(log.errors)


def _note(frame: Frame, report: ReadReport | None) -> None:
    if report is None:
        return
    if frame.concealed:
        report.concealed.append(frame.index)
    elif frame.side_data and frame.side_data.get("damaged"):
        report.damaged.append(frame.index)
