"""The sound, subtitle and other tracks of a deliverable against those of the plate, by their packets."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from av.stream import Disposition

from farm.media.container import open_container
from farm.media.facts import PlateFacts
from farm.merger.adts import HeaderTaker, has_adts
from farm.merger.carry import Carried, Way
from farm.merger.report import Findings, TrackReport
from farm.merger.side_by_side import Tick
from farm.words import counted

# The time base of tracks that state none, in seconds, and what is no rounding any more.
_COARSE = Fraction(1, 1000)
_JUMP = 0.25
_EMPTY_CUES = (b"", b"\0\0")


class Account:
    """A running account of one stream's packets: joined payload, count, time stamps (8 bytes a packet).

    `note` is what a person should know of them, "" for nothing.
    """

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self.packets = 0
        self.note = ""
        self.times = array("d")

    def add(self, packet: Any, kind: str) -> None:
        payload = bytes(packet)
        # MP4 fills the gaps between cues with empty ones.
        if kind == "subtitle" and payload in _EMPTY_CUES:
            return
        self._digest.update(payload)
        self.packets += 1
        if packet.pts is not None:
            self.times.append(float(packet.pts * Fraction(packet.time_base)))

    def add_bytes(self, data: bytes) -> None:
        self._digest.update(data)
        self.packets += 1

    def sha256(self) -> str:
        return self._digest.hexdigest()


def class_of(stream: Any) -> str:
    """A stream's kind, with cover art apart from moving pictures."""
    if stream.type == "video" and stream.disposition & Disposition.attached_pic:
        return "cover"
    return str(stream.type)


def paired(container: Any, facts: PlateFacts, carried: Sequence[Carried]) -> tuple[Any, dict[int, Any], list[Carried]]:
    """(picture stream, plate index → stream, what has no stream) of a deliverable, by order within each kind."""
    kinds = {stream.index: stream.kind for stream in facts.streams}
    kinds |= {s.index: "cover" for s in facts.streams if s.kind == "video" and "attached_pic" in s.disposition}
    wanted = {item.index: item for item in carried if item.way is not Way.LEAVE_OUT}
    queues: dict[str, Iterator[Any]] = {}
    picture, found, missing = None, {}, []
    for index in sorted([*wanted, facts.video.stream_index]):
        kind = "video" if index == facts.video.stream_index else kinds[index]
        if kind not in queues:
            queues[kind] = iter([stream for stream in container.streams if class_of(stream) == kind])
        stream = next(queues[kind], None)
        if index == facts.video.stream_index:
            picture = stream
        elif stream is None:
            missing.append(wanted[index])
        else:
            found[index] = stream
    return picture, found, missing


def plate_accounts(plate: Path, facts: PlateFacts, carried: Sequence[Carried], tick: Tick) -> dict[int, Account]:
    """Accounts of the plate's carried streams, with the one rewrite that a copy may make: ADTS headers go.

    `tick` is called with every packet.
    """
    wanted = [item.index for item in carried if item.way is not Way.LEAVE_OUT]
    if not wanted:
        return {}
    kinds = {stream.index: stream.kind for stream in facts.streams}
    accounts = {index: Account() for index in wanted}
    with open_container(plate) as container:
        streams: list[Any] = [container.streams[index] for index in wanted]
        takers = {s.index: HeaderTaker(s) for s in streams if has_adts(s)}
        for stream in streams:
            if stream.type == "attachment":
                accounts[stream.index].add_bytes(stream.data)
        moving = [stream for stream in streams if stream.type != "attachment"]
        for packet in container.demux(moving) if moving else ():
            tick()
            if packet.size == 0:
                continue
            index = packet.stream_index
            changed = takers[index].take(packet) if index in takers else (packet,)
            for one in changed:
                accounts[index].add(one, kinds[index])
        for index, taker in takers.items():
            if taker.lost:
                lost = f"{len(taker.lost)} of {counted(taker.taken, 'packet')} left out as damaged"
                accounts[index].note = f"Audio stream {index}: {lost}, the first at {taker.lost_at or 0:.3f} s."
    return accounts


def compare(
    facts: PlateFacts,
    carried: Sequence[Carried],
    before: dict[int, Account],
    after: dict[int, Account],
    ticks: dict[int, Fraction],
    shift: Fraction,
    findings: Findings,
) -> tuple[TrackReport, ...]:
    """Reports on all of the plate's other streams; `ticks` are the deliverable's time bases."""
    reports = []
    streams = {stream.index: stream for stream in facts.streams}
    for item in carried:
        if item.way is Way.LEAVE_OUT or item.index not in after:
            reports.append(
                TrackReport(index=item.index, kind=item.kind, way=item.way, packets=0, sha256="", same=False)
            )
            continue
        old, new = before[item.index], after[item.index]
        if old.note:
            findings.note(old.note)
        same = old.sha256() == new.sha256()
        reports.append(
            TrackReport(
                index=item.index, kind=item.kind, way=item.way, packets=new.packets, sha256=new.sha256(), same=same
            )
        )
        stream = streams[item.index]
        _compare_one(item, f"{stream.kind.capitalize()} stream {item.index} ({stream.codec})", old, new, same, findings)
        _compare_times(
            item, old, new, max(ticks.get(item.index, _COARSE), stream.time_base or _COARSE), shift, findings
        )
    return tuple(reports)


_KEPT_MARKS = ("default", "forced")
_NO_LANGUAGE = (None, "", "und")


def compare_marks(
    facts: PlateFacts, out: PlateFacts, places: dict[int, int], container: str, findings: Findings
) -> None:
    """Language and disposition of the carried streams; `places` are the deliverable's indices by the plate's.

    What MP4 and Matroska have a field for must be there; QuickTime knows only the languages of old Macintoshes, and
    other marks are kept where the muxer has a place for them: those are noted.
    """
    before, after = {s.index: s for s in facts.streams}, {s.index: s for s in out.streams}
    for index, place in places.items():
        old, new = before[index], after.get(place)
        if new is None or old.kind == "attachment":
            continue
        name = f"{old.kind.capitalize()} stream {index}"
        firm = container in ("mp4", "matroska")
        if old.language not in _NO_LANGUAGE and new.language != old.language:
            text = f"{name} is marked as {new.language or 'of no language'} instead of {old.language}."
            # Three letters are ISO 639-2, which both can write.
            _fault(findings, "language", text, firm=firm and len(old.language or "") == 3)
        for mark in sorted(set(old.disposition) - set(new.disposition)):
            text = f"{name} is not marked as {mark} any more."
            _fault(findings, "disposition", text, firm=firm and mark in _KEPT_MARKS)


def _fault(findings: Findings, code: str, text: str, *, firm: bool) -> None:
    if firm:
        findings.add(code, text)
    else:
        findings.note(text)


def _compare_one(item: Carried, name: str, old: Account, new: Account, same: bool, findings: Findings) -> None:
    if item.way is Way.COPY and not same and not (item.kind == "video" and old.packets == new.packets):
        text = f"{name} has {counted(new.packets, 'packet')} that are not the plate's {old.packets}."
        findings.add("track", text)
    elif item.way is Way.CONVERT and (new.packets == 0) != (old.packets == 0):
        findings.add("track", f"{name} came out empty.")
    elif item.way is Way.CONVERT and item.kind == "subtitle" and new.packets != old.packets:
        findings.add("track", f"{name} has {new.packets} cues instead of {old.packets}.")


def _compare_times(
    item: Carried, old: Account, new: Account, tick: Fraction, shift: Fraction, findings: Findings
) -> None:
    if not old.times or not new.times:
        return
    before, after = np.array(old.times) + float(shift), np.array(new.times)
    if len(before) != len(after):
        # Converted, or cut into other packets (PCM): then only the start can be compared.
        before, after = before[[0]], after[[0]]
    error = np.abs(after - before)
    # A tick of rounding, in the coarser of the two clocks. An encoder may cut its frames elsewhere, so converted
    # tracks may move by one frame.
    allowed = float(tick) * 1.01 if item.way is Way.COPY else 0.1
    if error.max() > allowed:
        at = int(error.argmax())
        text = (
            f"{item.kind.capitalize()} stream {item.index} is {error[at]:.4f} s away from where it should be at "
            f"{before[at]:.3f} s."
        )
        if error[at] > _JUMP:
            text += " The plate's clock jumps there: it is spliced, and must be rewrapped with one clock first."
        findings.add("track_time", text)
