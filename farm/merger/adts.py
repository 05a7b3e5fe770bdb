"""AAC sound in ADTS frames (transport streams): the headers go when it is copied into MP4 or Matroska.

A packet whose header cannot be read has no place there. It is left out, which is noted; all others keep their times.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import av.error
from av.bitstream import BitStreamFilterContext

from farm.errors import InputError
from farm.media.container import open_container
from farm.merger.carry import Carried, Way

# Each takes a term of the expression by which the muxer's filter chooses.
_MOST_GAPS = 200


def has_adts(stream: Any) -> bool:
    """Whether a stream's packets begin with ADTS headers."""
    context = stream.codec_context
    return stream.type == "audio" and context.codec.canonical_name == "aac" and not context.extradata


class HeaderTaker:
    """Takes the headers off a stream's packets, one by one.

    `lost` are the numbers (from 0) of the packets whose header cannot be read, `lost_at` when the first is due, in
    seconds; `taken` counts all packets.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._filter = BitStreamFilterContext("aac_adtstoasc", stream)
        self.taken = 0
        self.lost: list[int] = []
        self.lost_at: float | None = None

    def take(self, packet: Any) -> list[Any]:
        """The packet without its header; nothing where it has no readable one. The packet given is used up."""
        self.taken += 1
        at = None if packet.pts is None else float(packet.pts * Fraction(packet.time_base))
        try:
            return list(self._filter.filter(packet))
        except av.error.FFmpegError:
            self._filter = BitStreamFilterContext("aac_adtstoasc", self._stream)
            self.lost.append(self.taken - 1)
            self.lost_at = at if self.lost_at is None else self.lost_at
            return []


def unreadable(plate: Path, carried: Sequence[Carried]) -> dict[int, tuple[int, ...]]:
    """Of each copied sound stream of the plate, by index, the numbers of the packets that must be left out.

    InputError where there are too many places for that.
    """
    wanted = [item.index for item in carried if item.way is Way.COPY]
    with open_container(plate) as container:
        takers = {index: HeaderTaker(s) for index in wanted if has_adts(s := container.streams[index])}
        for packet in container.demux([container.streams[index] for index in takers]) if takers else ():
            if packet.size:
                takers[packet.stream_index].take(packet)
    for index, taker in takers.items():
        if len(runs(taker.lost)) > _MOST_GAPS:
            raise InputError(
                f"Audio stream {index} is damaged in {len(runs(taker.lost))} places; up to {_MOST_GAPS} are left out.",
                where=f"the plate's sound, at {taker.lost_at or 0:.3f} s",
                do="Record or copy the plate again, or take the sound out of it.",
            )
    return {index: tuple(taker.lost) for index, taker in takers.items() if taker.lost}


def runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Rising numbers as (first, last) of those that follow one another."""
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1] = found[-1][0], number
        else:
            found.append((number, number))
    return found
