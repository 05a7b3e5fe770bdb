"""Reads a finished deliverable back, all of it, and says in words whether it is what was promised."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import av.error
from av.stream import Discard

from farm.errors import FarmError, InfrastructureError
from farm.media import hdr
from farm.media.container import open_container
from farm.media.damage import timeline_warnings
from farm.media.deliverables import Source
from farm.media.encoders import EncoderPlan
from farm.media.facts import PlateFacts
from farm.media.look import alike
from farm.media.probe import probe
from farm.media.writer import ChunkFacts
from farm.merger import loudness, track_check
from farm.merger.decode_check import PART_FRAMES, PartCheck, parts_of
from farm.merger.film import Film
from farm.merger.mux import orientation_arguments, stale_tags
from farm.merger.plate_seams import plate_looks
from farm.merger.report import Findings, VerifyReport
from farm.merger.side_by_side import STALL_SECONDS, Tick, side_by_side


@dataclass
class _Tracks:
    """The deliverable's other streams, by the plate's index: what they hold, their ticks, their places.

    `before` is what the plate holds, `plate_looks` what it shows at seams, `picture` the place of the picture, which
    has ticks of `time_base`.
    """

    accounts: dict[int, track_check.Account] = field(default_factory=dict)
    ticks: dict[int, Fraction] = field(default_factory=dict)
    places: dict[int, int] = field(default_factory=dict)
    before: dict[int, track_check.Account] = field(default_factory=dict)
    plate_looks: dict[int, str] = field(default_factory=dict)
    plate_error: FarmError | None = None
    picture: int | None = None
    time_base: Fraction = Fraction(1)


def verify(
    deliverable: Path,
    film: Film,
    chunks: Sequence[ChunkFacts],
    *,
    threads: int = 0,
    part_frames: int = PART_FRAMES,
    stall_seconds: float = STALL_SECONDS,
) -> VerifyReport:
    """Decode every frame and compare count, pts, size, samples (where lossless), colour, tracks and tags.

    `chunks` are in order. Several parts of at least `part_frames` frames are decoded at a time, by `threads` threads in
    all, 0 for one a core. Raises nothing on a mismatch; InfrastructureError where nothing moves for `stall_seconds`.
    Memory: a few decoded frames for each part, whatever the length.
    """
    threads = threads or os.cpu_count() or 1
    findings, tracks, parts = Findings(), _Tracks(), list[PartCheck]()
    try:
        tracks = _tracks(deliverable, film, findings)
        if tracks.picture is not None:
            wanted = parts_of(chunks, threads, least_frames=part_frames)
            share = -(-threads // len(wanted))
            parts = [PartCheck(deliverable, film, part, tracks.picture, share) for part in wanted]
        _read(deliverable, film, chunks, tracks, parts, stall_seconds)
        out = probe(deliverable)
        _check_facts(out, film.facts, film.plan, film.metadata, findings)
        track_check.compare_marks(film.facts, out, tracks.places, film.plan.container, findings)
        _check_chapters(deliverable, film, findings)
        loudness.check(deliverable, film.plan, film.loudness, tracks.places, findings)
    except InfrastructureError:
        raise
    except (av.error.FFmpegError, FarmError) as error:
        findings.add("unreadable", f"The deliverable cannot be read to its end: {error}.")
    if tracks.plate_error is not None:
        raise tracks.plate_error
    for part in parts:
        findings.take(part.findings)
    seam_frames = _check_seams(film, parts, tracks.plate_looks, findings)
    reports = track_check.compare(
        film.facts, film.carried, tracks.before, tracks.accounts, tracks.ticks, film.shift, findings
    )
    for warning in timeline_warnings(film.facts, film.timeline):
        findings.note(warning.text)
    return VerifyReport(
        ok=findings.count == 0,
        frames_in=len(film.timeline),
        frames_out=sum(part.picture.frames for part in parts),
        worst_pts_error=max((part.picture.worst for part in parts), default=Fraction(0)),
        time_base=tracks.time_base,
        seams=len(chunks) - 1,
        seam_frames=seam_frames,
        lossless_chunks=sum(part.picture.lossless_chunks for part in parts),
        tracks=reports,
        findings=tuple(findings.items),
        notes=tuple(findings.notes),
    )


def _tracks(deliverable: Path, film: Film, findings: Findings) -> _Tracks:
    """Which stream is which; what is not there."""
    with open_container(deliverable, where="the deliverable") as container:
        stream, found, missing = track_check.paired(container, film.facts, film.carried)
        for item in missing:
            findings.add("track_missing", f"{item.kind.capitalize()} stream {item.index} of the plate is not there.")
        if stream is None:
            findings.add("no_picture", "The deliverable has no picture.")
            return _Tracks()
        return _Tracks(
            accounts={index: track_check.Account() for index in found},
            ticks={index: Fraction(s.time_base) for index, s in found.items() if s.time_base},
            places={index: s.index for index, s in found.items()},
            picture=stream.index,
            time_base=Fraction(stream.time_base),
        )


def _read(
    deliverable: Path,
    film: Film,
    chunks: Sequence[ChunkFacts],
    tracks: _Tracks,
    parts: Sequence[PartCheck],
    stall_seconds: float,
) -> None:
    """All packets of the deliverable, and those of the plate that it carries, side by side."""

    def account(tick: Tick) -> None:
        _account(deliverable, tracks, tick)

    def account_plate(tick: Tick) -> None:
        try:
            tracks.before = track_check.plate_accounts(film.plate, film.facts, film.carried, tick)
            tracks.plate_looks = plate_looks(film, chunks, tick)
        except FarmError as error:
            tracks.plate_error = error

    works = [*(part.run for part in parts), account, account_plate]
    side_by_side(works, where="reading the merged file back", stall_seconds=stall_seconds)


def _account(deliverable: Path, tracks: _Tracks, tick: Tick) -> None:
    """Account for the packets of all streams but the picture."""
    if not tracks.places:
        return
    index_of = {place: index for index, place in tracks.places.items()}
    with open_container(deliverable, where="the deliverable") as container:
        moving: list[Any] = []
        stream: Any
        for stream in container.streams:
            if stream.index not in index_of:
                stream.discard = Discard.all
            elif stream.type == "attachment":
                tracks.accounts[index_of[stream.index]].add_bytes(stream.data)
            else:
                moving.append(stream)
        for packet in container.demux(moving) if moving else ():
            tick()
            if packet.size:
                tracks.accounts[index_of[packet.stream_index]].add(packet, packet.stream.type)


def _check_seams(film: Film, parts: Sequence[PartCheck], plate: Mapping[int, str], findings: Findings) -> int:
    """Compare what is shown at seams with the plate; how many frames could be."""
    shown = {index: look for part in parts for index, look in part.picture.looks.items() if index in plate}
    for index, look in sorted(shown.items()):
        if not alike(look, plate[index]):
            pts = int(film.timeline.pts[index])
            findings.add("seam", f"Frame {index} (pts {pts}), at a seam, is not what the plate shows.", index, pts)
    return len(shown)


def _check_facts(
    out: PlateFacts, facts: PlateFacts, plan: EncoderPlan, metadata: Mapping[str, str], findings: Findings
) -> None:
    """Colour, shape, orientation, HDR metadata, tags: what the deliverable says of itself."""
    for name in ("primaries", "transfer", "matrix", "range"):
        wanted, found = getattr(plan.colour, name), getattr(out.video.colour, name)
        # Limited range is what silence means; x264 says nothing where no other tag is known.
        if wanted != "unknown" and found != wanted and (wanted, found) != ("tv", "unknown"):
            findings.add("colour", f"The colour {name} is {found} instead of {wanted}.")
    if plan.tag is not None and plan.container in ("mp4", "mov") and out.video.codec_tag != plan.tag:
        findings.add("codec_tag", f"The picture is marked {out.video.codec_tag} instead of {plan.tag}.")
    located = plan.colour.chroma_location
    if located != "unknown" and out.video.colour.chroma_location != located:
        findings.note(f"The chroma location is given as {out.video.colour.chroma_location}, the plate says {located}.")
    if abs(out.video.sample_aspect_ratio - plan.sample_aspect_ratio) > Fraction(1, 1000):
        findings.add("aspect", f"Pixels are {out.video.sample_aspect_ratio} instead of {plan.sample_aspect_ratio}.")
    if orientation_arguments(out.video) != orientation_arguments(facts.video):
        add = findings.note if plan.container == "matroska" else lambda text: findings.add("rotation", text)
        add(f"The picture is turned by {out.video.rotation}° instead of {facts.video.rotation}°.")
    if plan.field_order not in ("progressive", "unknown") and out.video.field_order != plan.field_order:
        findings.note(f"The field order is given as {out.video.field_order}, the plate says {plan.field_order}.")
    if plan.source is Source.PICTURE:
        for what, read in (("mastering display", hdr.mastering_display), ("content light", hdr.content_light)):
            if read(facts.video.side_data) is not None and read(out.video.side_data) != read(facts.video.side_data):
                findings.add("hdr", f"The {what} metadata is not the plate's.")
    _check_tags(out, facts, plan, metadata, findings)


def _check_tags(
    out: PlateFacts, facts: PlateFacts, plan: EncoderPlan, metadata: Mapping[str, str], findings: Findings
) -> None:
    found = {key.casefold(): value for key, value in out.metadata.items()}
    for key, value in metadata.items():
        if found.get(key.casefold()) != value:
            findings.add("label", f"The tag {key} is not in the file.")
    if not plan.carries_tracks:
        return
    for key in facts.metadata:
        if key.casefold() not in found and key not in stale_tags():
            findings.note(f"The plate's tag {key} could not be kept.")


def _check_chapters(deliverable: Path, film: Film, findings: Findings) -> None:
    wanted = _chapters(film.plate, film.shift) if film.plan.carries_tracks else []
    found = _chapters(deliverable, Fraction(0))
    if len(found) != len(wanted):
        findings.add("chapters", f"There are {len(found)} chapters instead of {len(wanted)}.")
        return
    for number, (new, old) in enumerate(zip(found, wanted, strict=True), 1):
        if new[1] != old[1] or abs(new[0] - old[0]) > Fraction(1, 500):
            findings.add("chapters", f"Chapter {number} is not where or what it is in the plate.")


def _chapters(path: Path, shift: Fraction) -> list[tuple[Fraction, str]]:
    with open_container(path) as container:
        return [
            (chapter["start"] * Fraction(chapter["time_base"] or 1) + shift, chapter["metadata"].get("title", ""))
            for chapter in container.chapters()
        ]
