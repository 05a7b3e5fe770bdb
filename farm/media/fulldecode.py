"""The timeline of a plate by decoding every frame of it: the truth, also about damage."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from av import Packet
from numpy.typing import NDArray

from farm.errors import InputError
from farm.media import limits
from farm.media.clock import BestEffort, Unroller, durations
from farm.media.decoder import DecodeLog, Stamp, decode_packets
from farm.media.facts import PlateFacts
from farm.media.packets import PacketReader, open_packets
from farm.media.timeline import Timeline


class ScannedFrame(NamedTuple):
    """A frame as a scan finds it: its time stamp and length in ticks, key flag, its packet's ordinal and bytes.

    `size` is 0 where nobody asks for it.
    """

    pts: int
    duration: int
    key: bool
    packet: int
    size: int = 0


class _Shown(NamedTuple):
    ordinal: int
    trigger: int | None
    faulty: bool


@dataclass
class _Seen:
    """What one pass over the packets brought: their clocks and flags, and the pictures they gave."""

    stamps: list[Stamp] = field(default_factory=list)
    keys: list[bool] = field(default_factory=list)
    discards: list[bool] = field(default_factory=list)
    shown: list[_Shown] = field(default_factory=list)

    def noting(self, reader: PacketReader) -> Iterator[Packet[Any]]:
        for packet in reader.numbered(self.stamps):
            self.keys.append(packet.is_keyframe)
            self.discards.append(packet.is_discard)
            yield packet


def decode_timeline(path: Path, facts: PlateFacts, watch: Callable[[int], None] = lambda frames: None) -> Timeline:
    """Every frame of a plain decode, with libavcodec's best-effort time stamps, made strictly increasing.

    Frames whose packets could not be decoded are kept in their place (`concealed`), frames that came out with faults
    are listed (`damaged`). `watch` is told how many pictures there are so far, and may raise to end it; it counts from
    the start again where a damaged plate is decoded twice. Raises InputError when no frame can be decoded.
    """
    found: frozenset[int] = frozenset()
    seen, log = _decode_all(path, facts, watch, exacting=True)
    if log.errors and facts.video.codec in limits.SILENT:
        found = frozenset(ordinal for ordinal, _ in log.errors)
        seen, log = _decode_all(path, facts, watch)
    clock, unroller = BestEffort(seen.stamps), Unroller(seen.stamps)
    all_key = facts.video.codec in limits.INTRA_ONLY
    lost = _lost(seen, facts) if log.errors else frozenset()
    frames: list[ScannedFrame] = []
    for ordinal, trigger, _ in _with_lost(seen, lost):
        known = seen.stamps[ordinal].pts if ordinal in lost else clock.next(ordinal, trigger)
        key = seen.keys[ordinal] or all_key
        frames.append(ScannedFrame(unroller.next(known), seen.stamps[ordinal].duration, key, ordinal))
    _check_splice(unroller, facts)
    faulty = frozenset(s.ordinal for s in seen.shown if s.faulty) | _touched(found - lost, seen)
    return timeline_of(frames, facts, decoded=True, lost=lost, faulty=faulty)


def _touched(found: frozenset[int], seen: _Seen) -> frozenset[int]:
    """Ordinals of the shown pictures that faults in the packets `found` are in: the packet's own, or the next one's."""
    given = sorted(s.ordinal for s in seen.shown)
    return frozenset(given[place] for fault in found if (place := bisect_left(given, fault)) < len(given))


def _decode_all(
    path: Path, facts: PlateFacts, watch: Callable[[int], None], *, exacting: bool = False
) -> tuple[_Seen, DecodeLog]:
    """One thread: with several, what becomes of a fault, and whether it is noticed, depends on which comes first."""
    seen, log = _Seen(), DecodeLog()
    shape: tuple[int, int, str] | None = None
    with open_packets(path, facts) as reader:
        for item in decode_packets(reader.setup, seen.noting(reader), log, threads=1, exacting=exacting):
            if item.ordinal is not None:
                found = item.picture.width, item.picture.height, item.picture.format.name
                shape = shape or found
                if found != shape:
                    raise _another_picture(shape, found, len(seen.shown), seen.stamps[item.ordinal], facts)
                seen.shown.append(_Shown(item.ordinal, item.trigger, item.picture.is_corrupt))
                watch(len(seen.shown))
        reader.require_whole()
    return seen, log


def _check_splice(unroller: Unroller, facts: PlateFacts) -> None:
    """InputError where the clock starts anew under sound or subtitles, which cannot be moved along with the picture."""
    if unroller.anew is None or not any(stream.kind in ("audio", "subtitle") for stream in facts.streams):
        return
    frame, seconds = unroller.anew[0], float(unroller.anew[1] * facts.video.time_base)
    raise InputError(
        f"The plate's clock starts anew, at {seconds:.3f} s: it is spliced, and its sound would slip.",
        where=f"the plate's frame {frame}",
        do="Rewrap it with one clock first, or cut it in two at this frame.",
    )


def _another_picture(
    before: tuple[int, int, str], after: tuple[int, int, str], frame: int, stamp: Stamp, facts: PlateFacts
) -> InputError:
    seconds = float((stamp.pts or 0) * facts.video.time_base)
    return InputError(
        f"The picture becomes {after[0]}×{after[1]} {after[2]}; until there it is {before[0]}×{before[1]} {before[2]}.",
        where=f"the plate's frame {frame}, at {seconds:.3f} s",
        do="Cut the plate in two at this frame.",
    )


def timeline_of(
    frames: list[ScannedFrame],
    facts: PlateFacts,
    *,
    decoded: bool = False,
    lost: frozenset[int] = frozenset(),
    faulty: frozenset[int] = frozenset(),
) -> Timeline:
    """A Timeline of scanned frames. Raises InputError when there are none.

    `lost` and `faulty` are the ordinals of packets that give no picture, and of those that give one with faults.
    """
    if not frames:
        raise InputError("Not one frame can be decoded.", where="the plate's picture", do="Check the file in a player.")
    pts = np.array([f.pts for f in frames], np.int64)
    return Timeline(
        facts.video.time_base,
        pts,
        durations(pts, frames[-1].duration),
        np.array([f.key for f in frames], np.bool_),
        np.array([f.packet for f in frames], np.int64),
        _places(frames, lost),
        _places(frames, faulty),
        decoded,
    )


def _places(frames: list[ScannedFrame], ordinals: frozenset[int]) -> NDArray[np.int64]:
    return np.array([i for i, f in enumerate(frames) if f.packet in ordinals], np.int64)


def _lost(seen: _Seen, facts: PlateFacts) -> frozenset[int]:
    """Ordinals of packets that should have given a picture but did not, in a stream that had decoding errors.

    (Without errors none is lost: hidden pictures and second fields give no picture either.) What lies before the first
    picture shown has nothing that could be repeated in its place.
    """
    if not seen.shown or facts.video.codec not in limits.ONE_PICTURE_A_PACKET:
        return frozenset()
    given = {s.ordinal for s in seen.shown}
    start = seen.shown[0].ordinal
    start_pts = seen.stamps[start].pts
    lost = set()
    for ordinal in range(start + 1, len(seen.stamps)):
        pts = seen.stamps[ordinal].pts
        if ordinal in given or seen.discards[ordinal] or pts is None:
            continue
        if start_pts is None or pts > start_pts:
            lost.add(ordinal)
    # Fields in packets of their own leave every second packet without a picture, damaged or not.
    return frozenset(lost) if 2 * len(lost) < len(seen.stamps) else frozenset()


def _with_lost(seen: _Seen, lost: frozenset[int]) -> Iterator[_Shown]:
    """The pictures shown, with the lost ones at their place in time."""
    waiting = sorted(lost, key=lambda o: seen.stamps[o].pts or 0)
    for shown in seen.shown:
        pts = seen.stamps[shown.ordinal].pts
        while waiting and pts is not None and (seen.stamps[waiting[0]].pts or 0) < pts:
            yield _Shown(waiting.pop(0), None, False)
        yield shown
    for ordinal in waiting:
        yield _Shown(ordinal, None, False)
