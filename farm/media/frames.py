"""From decoder output to Frames: each frame of the timeline once, in order, with the timeline's time stamp."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from av import VideoFrame

from farm.errors import PlanMismatchError
from farm.media.decoder import Decoded, DecodeLog
from farm.media.facts import ColourFacts
from farm.media.frame import CardFrame, Frame, SampleFormat
from farm.media.frameindex import FrameIndex
from farm.media.names import MATRICES, PRIMARIES, RANGES, TRANSFERS, name_of
from farm.media.planes import is_full_range_format, planar_format, to_planes


@dataclass(slots=True)
class ReadReport:
    """What a reader met.

    `concealed` frames repeat the one before, `damaged` ones were decoded with faults in them (frame indexes); `errors`
    are the decoder's (packet, reason), from packets outside the range too.
    """

    concealed: list[int] = field(default_factory=list)
    damaged: list[int] = field(default_factory=list)
    errors: list[tuple[int, str]] = field(default_factory=list)


class FrameMaker:
    """Makes Frames of decoded pictures; `stated` is the plate's colour, used where a picture's own tags are silent."""

    def __init__(self, stated: ColourFacts) -> None:
        self._stated = stated
        self._known: dict[tuple[Any, ...], ColourFacts] = {}

    def make(self, picture: VideoFrame, pts: int, index: int) -> Frame:
        """A Frame that owns its samples."""
        planes, fmt = to_planes(picture)
        return Frame(planes, fmt, self._colour(picture), pts, index, side_data=_side_data(picture))

    def _colour(self, picture: VideoFrame) -> ColourFacts:
        tags = (picture.color_primaries, picture.color_trc, picture.colorspace, picture.color_range)
        key = (*tags, picture.format.name)
        if key not in self._known:
            tables = (("primaries", PRIMARIES), ("transfer", TRANSFERS), ("matrix", MATRICES), ("range", RANGES))
            said = {n: name_of(table, tag) for (n, table), tag in zip(tables, tags, strict=True)}
            if is_full_range_format(picture.format.name):
                said["range"] = "pc"
            own = {n: value for n, value in said.items() if value != "unknown"}
            self._known[key] = self._stated.model_copy(update=own)
        return self._known[key]


class CardFrameMaker(FrameMaker):
    """Makes CardFrames of pictures that a card decoded; `sample_format` is the plate's, by FFmpeg's name."""

    def __init__(self, stated: ColourFacts, sample_format: str) -> None:
        super().__init__(stated)
        self._format: SampleFormat = planar_format(sample_format)

    def make(self, picture: VideoFrame, pts: int, index: int) -> Frame:
        side_data = _side_data(picture)
        return CardFrame((), self._format, self._colour(picture), pts, index, side_data=side_data, picture=picture)


def _side_data(picture: VideoFrame) -> dict[str, bool]:
    return {"interlaced": picture.interlaced_frame, "damaged": picture.is_corrupt}


def assemble(
    decoded: Iterable[Decoded],
    index: FrameIndex,
    maker: FrameMaker,
    log: DecodeLog,
    *,
    low: int,
    high: int | None = None,
    strict: bool = False,
) -> Iterator[Frame]:
    """Frames [low, high) of the timeline, every one; None as `high` is the end.

    A frame that the decoder did not give is the one before it, marked as concealed. Raises PlanMismatchError where
    frames are missing though nothing went wrong, come in another order than planned, or the first has none before it;
    with `strict` also for frames that have faults in them or are lost to them, since what a decoder makes of those
    depends on where it began.
    """
    joiner = _Joiner(index, maker, low)
    for item in decoded:
        number = index.frame_of(item.ordinal) if item.ordinal is not None else None
        if number is None or number < low or (high is not None and number >= high):
            continue
        if strict and item.picture.is_corrupt:
            raise _mismatch("The frame has faults in it.", number)
        yield from joiner.up_to(number)
        yield joiner.take(item.picture, number)
        if number + 1 == high:
            break
    yield from joiner.up_to(min(high, len(index)) if high is not None else len(index))
    joiner.check(log, strict=strict)


class _Joiner:
    """Keeps count of the frames given, and the last picture for those that do not come."""

    def __init__(self, index: FrameIndex, maker: FrameMaker, low: int) -> None:
        self._index = index
        self._maker = maker
        self._expected = low
        # The picture, not the Frame made of it: that one is the receiver's, who may paint in it.
        self._last: VideoFrame | None = None
        self._concealed: list[int] = []

    def take(self, picture: VideoFrame, number: int) -> Frame:
        self._last = picture
        self._expected = number + 1
        return self._maker.make(picture, self._index.pts_of(number), number)

    def up_to(self, number: int) -> Iterator[Frame]:
        """Concealed frames for those that did not come before `number`."""
        if number < self._expected:
            raise _mismatch(f"It was decoded after frame {self._expected - 1}.", number)
        while self._expected < number:
            if self._last is None:
                raise _mismatch("It is the first one needed and cannot be decoded.", self._expected)
            frame = self.take(self._last, self._expected)
            frame.concealed = True
            self._concealed.append(frame.index)
            yield frame

    def check(self, log: DecodeLog, *, strict: bool) -> None:
        unknown = [n for n in self._concealed if not self._index.is_known_lost(n)]
        if unknown and (strict or not log.errors):
            raise _mismatch(f"{len(unknown)} planned frames were not there.", unknown[0])
        if strict and log.errors:
            raise _mismatch(f"The decoder stumbled over packet {log.errors[0][0]}.", self._expected - 1)


def _mismatch(what: str, frame: int) -> PlanMismatchError:
    return PlanMismatchError(what, where=f"frame {frame}", do="Plan again by decoding the whole plate.")
