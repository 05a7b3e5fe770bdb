"""Find out which frames a plate has: fast from its packets, or for certain by decoding it.

Both give what a plain decode gives: presentation order, after edit lists, without hidden frames, without leading
pictures that cannot be decoded at the start.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from av import Packet

from farm.errors import InputError
from farm.media import limits
from farm.media.clock import BestEffort, Unroller, durations
from farm.media.decoder import DecodeLog, Stamp, decode_packets
from farm.media.facts import PlateFacts
from farm.media.packets import PacketReader, open_packets
from farm.media.timeline import Timeline

_REORDER_WINDOW = 64
"""More packets than any codec holds back; frames older than that are certain even where there is no dts."""


class ScannedFrame(NamedTuple):
    """A frame as the scan finds it: its time stamp and length in ticks, key flag, and its packet's ordinal."""

    pts: int
    duration: int
    key: bool
    packet: int


class PacketsNotEnoughError(Exception):
    """The packets alone do not say which frames there are; the message says why. Decode instead."""


def scan_timeline(path: Path, facts: PlateFacts, *, on_frame: Callable[[ScannedFrame], None] | None = None) -> Timeline:
    """The timeline by packets; by full decode where packets cannot tell (`decoded` says so).

    `on_frame` gets each frame in presentation order as soon as it is certain. Raises InputError when there is no
    frame at all.
    """
    frames: list[ScannedFrame] = []
    try:
        for frame in scan_frames(path, facts):
            frames.append(frame)
            if on_frame is not None:
                on_frame(frame)
    except PacketsNotEnoughError:
        return decode_timeline(path, facts)
    return timeline_of(frames, facts, decoded=False)


def scan_frames(path: Path, facts: PlateFacts) -> Iterator[ScannedFrame]:
    """Frames in presentation order, each as soon as it is certain. Raises PacketsNotEnoughError."""
    if facts.video.codec not in limits.ONE_PICTURE_A_PACKET:
        raise PacketsNotEnoughError(f"{facts.video.codec} packets may hold several pictures or none")
    if facts.video.codec in ("h264", "hevc") and facts.video.field_order not in ("progressive", "unknown"):
        raise PacketsNotEnoughError("fields may come in packets of their own")
    hidden = _undecodable_head(path, facts)
    with open_packets(path, facts) as reader:
        yield from _Presentation(hidden, facts.video.codec in limits.INTRA_ONLY).frames(reader)


def timeline_of(
    frames: list[ScannedFrame], facts: PlateFacts, *, decoded: bool, damaged: frozenset[int] = frozenset()
) -> Timeline:
    """A Timeline of scanned frames; `damaged` are ordinals of packets that give no picture. InputError when empty."""
    if not frames:
        raise InputError("Not one frame can be decoded.", where="the plate's picture", do="Check the file in a player.")
    pts = np.array([f.pts for f in frames], np.int64)
    key = np.array([f.key for f in frames], np.bool_)
    packet = np.array([f.packet for f in frames], np.int64)
    concealed = np.array([i for i, f in enumerate(frames) if f.packet in damaged], np.int64)
    return Timeline(
        facts.video.time_base, pts, durations(pts, frames[-1].duration), key, packet, concealed, decoded=decoded
    )


class _Presentation:
    """Puts packets into presentation order with a heap of bounded size."""

    def __init__(self, hidden: frozenset[int], all_key: bool) -> None:
        self._hidden = hidden
        self._all_key = all_key
        self._waiting: list[ScannedFrame] = []
        self._last_pts: int | None = None
        self._last_dts: int | None = None

    def frames(self, reader: PacketReader) -> Iterator[ScannedFrame]:
        for ordinal, packet in reader:
            if packet.is_corrupt:
                raise PacketsNotEnoughError(f"packet {ordinal} is marked as damaged")
            self._check_clock(ordinal, packet.dts)
            if not packet.is_discard and ordinal not in self._hidden:
                if packet.pts is None:
                    raise PacketsNotEnoughError(f"packet {ordinal} has no time stamp")
                key = packet.is_keyframe or self._all_key
                heapq.heappush(self._waiting, ScannedFrame(packet.pts, packet.duration or 0, key, ordinal))
            while self._waiting and self._is_certain(packet.dts):
                yield self._pop()
        if reader.broke_at is not None:
            raise PacketsNotEnoughError(f"the container cannot be read after byte {reader.broke_at}")
        while self._waiting:
            yield self._pop()

    def _check_clock(self, ordinal: int, dts: int | None) -> None:
        if dts is not None:
            if self._last_dts is not None and dts <= self._last_dts:
                raise PacketsNotEnoughError(f"the clock stands or steps back at packet {ordinal}")
            self._last_dts = dts

    def _is_certain(self, dts: int | None) -> bool:
        # A packet cannot be shown before it is decoded, so nothing that comes later can be shown before this dts.
        return (dts is not None and self._waiting[0].pts < dts) or len(self._waiting) > _REORDER_WINDOW

    def _pop(self) -> ScannedFrame:
        frame = heapq.heappop(self._waiting)
        if self._last_pts is not None and frame.pts <= self._last_pts:
            raise PacketsNotEnoughError(f"time stamp {frame.pts} comes twice or out of order")
        self._last_pts = frame.pts
        return frame


def _undecodable_head(path: Path, facts: PlateFacts) -> frozenset[int]:
    """Ordinals of packets at the start that a plain decode does not show: leading pictures, a start inside a GOP."""
    if facts.video.codec in limits.INTRA_ONLY:
        return frozenset()
    with open_packets(path, facts) as reader:
        head = list(islice(reader, 2 * _REORDER_WINDOW))
        suspects = _suspects([(o, p.pts, p.is_keyframe) for o, p in head if not p.is_discard])
        if not suspects:
            return frozenset()
        for ordinal, packet in head:
            packet.pts = packet.dts = ordinal
        log = DecodeLog()
        shown = {d.ordinal for d in decode_packets(reader.setup, (p for _, p in head), log)}
    return frozenset(suspects - shown)


def _suspects(head: list[tuple[int, int | None, bool]]) -> set[int]:
    """Packets before the first key packet, and those after it that are shown before it."""
    first_key = next((i for i, (_, _, key) in enumerate(head) if key), None)
    if first_key is None:
        return {ordinal for ordinal, _, _ in head}
    key_pts = head[first_key][1]
    early = {ordinal for ordinal, _, _ in head[:first_key]}
    leading = {o for o, pts, _ in head[first_key:] if pts is not None and key_pts is not None and pts < key_pts}
    return early | leading


@dataclass(frozen=True)
class DecodedPlate:
    """A timeline by full decode, and what went wrong on the way.

    `damaged` lists the ordinals of packets that gave no picture because they could not be decoded; their frames are
    in the timeline, and a reader repeats the frame before in their place.
    """

    timeline: Timeline
    damaged: tuple[int, ...]
    errors: tuple[tuple[int, str], ...]


def decode_timeline(path: Path, facts: PlateFacts) -> Timeline:
    """The timeline by decoding every frame: the truth where it differs from the packets'."""
    return decode_plate(path, facts).timeline


def decode_plate(path: Path, facts: PlateFacts) -> DecodedPlate:
    """Decode everything once; see DecodedPlate. Raises InputError when no frame can be decoded."""
    stamps: list[Stamp] = []
    flags: list[tuple[bool, bool]] = []
    log = DecodeLog()
    with open_packets(path, facts) as reader:
        packets = _noting_flags(reader, stamps, flags)
        shown = [(d.ordinal, d.trigger) for d in decode_packets(reader.setup, packets, log) if d.ordinal is not None]
    clock, unroller = BestEffort(stamps), Unroller(stamps)
    all_key = facts.video.codec in limits.INTRA_ONLY
    frames: list[ScannedFrame] = []
    missing = _damaged(shown, stamps, flags, log, facts)
    for ordinal, trigger in _with_missing(shown, missing, stamps):
        known = stamps[ordinal].pts if ordinal in missing else clock.next(ordinal, trigger)
        pts = unroller.next(known)
        frames.append(ScannedFrame(pts, stamps[ordinal].duration, flags[ordinal][0] or all_key, ordinal))
    timeline = timeline_of(frames, facts, decoded=True, damaged=missing)
    return DecodedPlate(timeline, tuple(sorted(missing)), tuple(log.errors))


def _noting_flags(reader: PacketReader, stamps: list[Stamp], flags: list[tuple[bool, bool]]) -> Iterator[Packet[Any]]:
    for packet in reader.numbered(stamps):
        flags.append((packet.is_keyframe, packet.is_discard))
        yield packet


def _damaged(
    shown: list[tuple[int, int | None]],
    stamps: list[Stamp],
    flags: list[tuple[bool, bool]],
    log: DecodeLog,
    facts: PlateFacts,
) -> frozenset[int]:
    """Ordinals of packets that should have given a picture but did not.

    Without a decoding error nothing is damaged: hidden pictures and second fields give none either. What lies before
    the first picture shown has nothing that could be repeated in its place.
    """
    if not log.errors or not shown or facts.video.codec not in limits.ONE_PICTURE_A_PACKET:
        return frozenset()
    seen = {ordinal for ordinal, _ in shown}
    start, start_pts = shown[0][0], stamps[shown[0][0]].pts
    lost = set()
    for ordinal in range(start + 1, len(stamps)):
        pts, discard = stamps[ordinal].pts, flags[ordinal][1]
        if ordinal not in seen and not discard and pts is not None and (start_pts is None or pts > start_pts):
            lost.add(ordinal)
    # Fields in packets of their own leave every second packet without a picture, damaged or not.
    return frozenset(lost) if 2 * len(lost) < len(stamps) else frozenset()


def _with_missing(
    shown: list[tuple[int, int | None]], missing: frozenset[int], stamps: list[Stamp]
) -> Iterator[tuple[int, int | None]]:
    """The shown frames with the missing ones at their place in time."""
    waiting = sorted(missing, key=lambda o: stamps[o].pts or 0)
    for ordinal, trigger in shown:
        pts = stamps[ordinal].pts
        while waiting and pts is not None and (stamps[waiting[0]].pts or 0) < pts:
            yield waiting.pop(0), None
        yield ordinal, trigger
    for ordinal in waiting:
        yield ordinal, None


def compare_timelines(by_packets: Timeline, by_decode: Timeline) -> str | None:
    """None when both name the same frames at the same times, else what differs, in words."""
    if len(by_packets) != len(by_decode):
        return f"{len(by_packets)} frames by packets, {len(by_decode)} by decoding"
    for name in ("pts", "packet"):
        a, b = getattr(by_packets, name), getattr(by_decode, name)
        differing = np.flatnonzero(a != b)
        if len(differing):
            at = int(differing[0])
            return f"frame {at} has {name} {a[at]} by packets, {b[at]} by decoding"
    return None
