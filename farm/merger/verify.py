"""Reads a finished deliverable back, all of it, and says in words whether it is what was promised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import av.error
from av.codec.context import ThreadType

from farm.errors import FarmError
from farm.media import hdr
from farm.media.container import open_container
from farm.media.deliverables import Source
from farm.media.encoders import EncoderPlan
from farm.media.facts import PlateFacts
from farm.media.probe import probe
from farm.media.writer import ChunkFacts
from farm.merger import track_check
from farm.merger.carry import Carried
from farm.merger.film import Film
from farm.merger.mux import orientation_arguments, stale_tags
from farm.merger.picture_check import PictureCheck
from farm.merger.report import Findings, VerifyReport


@dataclass
class _Account:
    accounts: dict[int, track_check.Account] = field(default_factory=dict)
    ticks: dict[int, Fraction] = field(default_factory=dict)
    places: dict[int, int] = field(default_factory=dict)
    time_base: Fraction = Fraction(1)


def verify(deliverable: Path, film: Film, chunks: Sequence[ChunkFacts], *, threads: int = 0) -> VerifyReport:
    """Decode every frame and compare count, pts, size, samples (where lossless), colour, tracks and tags.

    `chunks` are in order; `threads` limits the decoder, 0 for all. Raises nothing on a mismatch. Memory: a few decoded
    frames, whatever the length.
    """
    facts, timeline, plan, carried = film.facts, film.timeline, film.plan, film.carried
    findings = Findings()
    picture = PictureCheck(timeline, plan, chunks, film.shift, findings)
    read = _Account()
    try:
        with open_container(deliverable, where="the deliverable") as container:
            read = _read(container, facts, carried, picture, findings, threads)
        out = probe(deliverable)
        _check_facts(out, facts, plan, film.metadata, findings)
        track_check.compare_marks(facts, out, read.places, plan.container, findings)
        _check_chapters(deliverable, film, findings)
    except (av.error.FFmpegError, FarmError) as error:
        findings.add("unreadable", f"The deliverable cannot be read to its end: {error}.")
    picture.finish()
    before = track_check.plate_accounts(film.plate, facts, carried)
    tracks = track_check.compare(facts, carried, before, read.accounts, read.ticks, film.shift, findings)
    return VerifyReport(
        ok=findings.count == 0,
        frames_in=len(timeline),
        frames_out=picture.frames,
        worst_pts_error=picture.worst,
        time_base=read.time_base,
        seams=len(chunks) - 1,
        lossless_chunks=picture.lossless_chunks,
        tracks=tracks,
        findings=tuple(findings.items),
        notes=tuple(findings.notes),
    )


def _read(
    container: Any,
    facts: PlateFacts,
    carried: Sequence[Carried],
    picture: PictureCheck,
    findings: Findings,
    threads: int,
) -> _Account:
    """One pass over all packets: the picture is decoded, the rest is accounted for."""
    stream, found, missing = track_check.paired(container, facts, carried)
    for item in missing:
        findings.add("track_missing", f"{item.kind.capitalize()} stream {item.index} of the plate is not there.")
    if stream is None:
        findings.add("no_picture", "The deliverable has no picture.")
        return _Account()
    context = stream.codec_context
    context.thread_type, context.thread_count = ThreadType.AUTO, threads
    # Broken references and bit errors must be errors here, not concealed pictures.
    context.options = {"err_detect": "explode"}
    time_base = Fraction(stream.time_base)
    accounts = {index: track_check.Account() for index in found}
    place = {other.index: index for index, other in found.items()}
    for index, other in found.items():
        if other.type == "attachment":
            accounts[index].add_bytes(other.data)
    for packet in container.demux([stream, *(s for s in found.values() if s.type != "attachment")]):
        # The last, empty packet flushes the decoder; its own stream_index is not set.
        if packet.stream is stream:
            if packet.is_corrupt:
                findings.add("corrupt", "The container marks a packet of the picture as corrupt.", pts=packet.pts)
            for frame in packet.decode():
                picture.add(frame, time_base)
        elif packet.size:
            index = place[packet.stream_index]
            accounts[index].add(packet, found[index].type)
    ticks = {index: Fraction(s.time_base) for index, s in found.items() if s.time_base}
    return _Account(accounts, ticks, {index: other.index for index, other in found.items()}, time_base)


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
