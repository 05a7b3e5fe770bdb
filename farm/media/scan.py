"""Find out which frames a plate has: fast from its packets, or for certain by decoding it.

Both give what a plain decode gives: presentation order, after edit lists, without hidden frames, without leading
pictures that cannot be decoded at the start.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from farm.media import limits
from farm.media.decoder import DecodeLog, decode_packets
from farm.media.facts import PlateFacts
from farm.media.fulldecode import ScannedFrame, decode_timeline, timeline_of
from farm.media.packetlog import PacketLog
from farm.media.packets import PacketReader, open_packets
from farm.media.shape import ShapeWatch
from farm.media.timeline import Timeline
from farm.words import counted

__all__ = ["ScannedFrame", "compare_timelines", "decode_timeline", "scan_frames", "scan_timeline"]

_REORDER_WINDOW = 64
"""More packets than any codec holds back; frames older than that are certain even where there is no dts."""


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
    return timeline_of(frames, facts)


def scan_frames(path: Path, facts: PlateFacts, log: PacketLog | None = None) -> Iterator[ScannedFrame]:
    """Frames in presentation order, each as soon as it is certain. Raises PacketsNotEnoughError.

    `log` is told of every packet that is read.
    """
    if facts.video.codec not in limits.ONE_PICTURE_A_PACKET:
        raise PacketsNotEnoughError(f"{facts.video.codec} packets may hold several pictures or none")
    if facts.video.codec in ("h264", "hevc") and facts.video.field_order not in ("progressive", "unknown"):
        raise PacketsNotEnoughError("fields may come in packets of their own")
    all_key = facts.video.codec in limits.INTRA_ONLY
    with open_packets(path, facts) as reader:
        packets = iter(reader)
        head = [] if all_key else list(islice(packets, 2 * _REORDER_WINDOW))
        hidden = _undecodable(path, facts, head)
        if log is not None:
            log.begin(reader, facts.video.codec)
        yield from _Presentation(hidden, all_key, log).frames(reader, chain(head, packets))


class _Presentation:
    """Puts packets into presentation order with a heap of bounded size."""

    def __init__(self, hidden: frozenset[int], all_key: bool, log: PacketLog | None) -> None:
        self._hidden = hidden
        self._all_key = all_key
        self._log = log
        self._waiting: list[ScannedFrame] = []
        self._last_pts: int | None = None
        self._last_dts: int | None = None

    def frames(self, reader: PacketReader, packets: Iterator[tuple[int, Any]]) -> Iterator[ScannedFrame]:
        shape = ShapeWatch(reader.setup.codec, reader.setup.extradata_bytes)
        for ordinal, packet in packets:
            if self._log is not None:
                self._log.add(packet)
            if packet.is_corrupt:
                raise PacketsNotEnoughError(f"packet {ordinal} is marked as damaged")
            if packet.is_keyframe and shape.differs(packet):
                raise PacketsNotEnoughError(f"packet {ordinal} announces another picture")
            self._check_clock(ordinal, packet.dts)
            if not packet.is_discard and ordinal not in self._hidden:
                if packet.pts is None:
                    raise PacketsNotEnoughError(f"packet {ordinal} has no time stamp")
                key = packet.is_keyframe or self._all_key
                found = ScannedFrame(packet.pts, packet.duration or 0, key, ordinal, packet.size)
                heapq.heappush(self._waiting, found)
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


def _undecodable(path: Path, facts: PlateFacts, head: Sequence[tuple[int, Any]]) -> frozenset[int]:
    """Ordinals of packets at the start that a plain decode does not show: leading pictures, a start inside a GOP."""
    suspects = _suspects([(o, p.pts, p.is_keyframe) for o, p in head if not p.is_discard]) if head else set()
    if not suspects:
        return frozenset()
    # Decoding changes packets, and these are still to be counted: read them once more.
    with open_packets(path, facts) as reader:
        log, numbered = DecodeLog(), islice(reader.numbered([]), len(head))
        shown = {d.ordinal for d in decode_packets(reader.setup, numbered, log)}
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


def compare_timelines(by_packets: Timeline, by_decode: Timeline) -> str | None:
    """None when both name the same frames at the same times, else what differs, in words."""
    if len(by_packets) != len(by_decode):
        return f"{counted(len(by_packets), 'frame')} by packets, {len(by_decode)} by decoding"
    for name in ("pts", "packet"):
        a, b = getattr(by_packets, name), getattr(by_decode, name)
        differing = np.flatnonzero(a != b)
        if len(differing):
            at = int(differing[0])
            return f"frame {at} has {name} {a[at]} by packets, {b[at]} by decoding"
    return None
