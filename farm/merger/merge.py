"""The merge: check the chunks, join them, mux what the plate carries beside its picture, read it all back, publish."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from farm.errors import FarmError, PolicyError
from farm.media import ffmpeg
from farm.media.container import open_container
from farm.media.encoders import EncoderPlan
from farm.media.facts import PlateFacts, Rational
from farm.media.timeline import Timeline
from farm.media.writer import file_sha256
from farm.merger.carry import Carried, Way, carriage, is_cover
from farm.merger.check import check_chunks
from farm.merger.clock import shift_of
from farm.merger.join import ChunkFile, first_dts, write_joined
from farm.merger.mux import mux_arguments
from farm.merger.report import VerifyReport
from farm.merger.verify import verify


class MergeReport(BaseModel):
    """What a merge made. `shift` seconds were added to every time stamp; `concealed` frames repeat the one before."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    chunks: int
    frames: int
    size: int
    sha256: str
    shift: Rational
    encoder: str
    carried: tuple[Carried, ...]
    concealed: tuple[int, ...]
    verified: VerifyReport


def merge(
    plate: Path,
    facts: PlateFacts,
    timeline: Timeline,
    chunks: Sequence[ChunkFile],
    plan: EncoderPlan,
    out: Path,
    *,
    metadata: Mapping[str, str] | None = None,
    threads: int = 0,
) -> MergeReport:
    """Make the deliverable `out` of the chunk files; it appears only when it was read back and found right.

    `metadata` goes into the file's global tags. FarmError names the chunk, frame or pts that is wrong; then `out` is
    not touched and nothing is left behind.
    """
    if not chunks:
        raise FarmError("There are no chunks.", where="merge", do="Render the job first.")
    metadata = metadata or {}
    _check_metadata(metadata)
    ordered = check_chunks(chunks, timeline, plan)
    carried = carriage(facts, plan)
    shift = shift_of(facts, timeline)
    part = out.with_name(f".{os.getpid()}-{out.name[-100:]}.part")
    try:
        _mux(plate, part, facts, timeline, plan, carried, ordered, shift, metadata)
        report = verify(
            part,
            plate,
            facts,
            timeline,
            plan,
            [chunk.facts for chunk in ordered],
            carried,
            shift=shift,
            metadata=metadata,
            threads=threads,
        )
        if not report.ok:
            raise FarmError(
                f"The merged file is not right: {report.words()}",
                where=f"merge of {len(ordered)} chunks to {plan.deliverable}",
                do="Merge again; if it fails the same way, render the chunk that holds the frame again.",
            )
        merged = MergeReport(
            chunks=len(ordered),
            frames=len(timeline),
            size=part.stat().st_size,
            sha256=file_sha256(part),
            shift=shift,
            encoder=plan.encoder,
            carried=carried,
            concealed=tuple(frame for chunk in ordered for frame in chunk.facts.concealed),
            verified=report,
        )
        part.replace(out)
    finally:
        part.unlink(missing_ok=True)
    return merged


def _mux(
    plate: Path,
    part: Path,
    facts: PlateFacts,
    timeline: Timeline,
    plan: EncoderPlan,
    carried: Sequence[Carried],
    chunks: Sequence[ChunkFile],
    shift: Fraction,
    metadata: Mapping[str, str],
) -> None:
    covers = _covers(plate, part, facts, carried)
    arguments = mux_arguments(
        plate,
        part,
        facts,
        timeline,
        plan,
        carried,
        shift=shift,
        first_dts=first_dts(chunks, timeline),
        metadata=metadata,
        covers=covers,
    )
    try:
        ffmpeg.run(
            arguments,
            where=f"muxing {plan.deliverable}",
            feed=lambda pipe: write_joined(chunks, timeline, pipe),
            hide=(plate.absolute(), part.absolute(), plate, part),
        )
    finally:
        for path in covers.values():
            path.unlink(missing_ok=True)


def _covers(plate: Path, part: Path, facts: PlateFacts, carried: Sequence[Carried]) -> dict[int, Path]:
    """Cover pictures as files beside `part`: the muxer takes attachments from files only."""
    ways = {item.index: item.way for item in carried}
    wanted = [s.index for s in facts.streams if is_cover(s) and ways[s.index] is Way.COPY]
    covers: dict[int, Path] = {}
    for index in wanted:
        with open_container(plate) as container:
            packet = next(p for p in container.demux(container.streams[index]) if p.size)
            covers[index] = part.with_name(f"{part.name}-{index}")
            covers[index].write_bytes(bytes(packet))
    return covers


def _check_metadata(metadata: Mapping[str, str]) -> None:
    for key, value in metadata.items():
        if not key or "=" in key or "\0" in key + value:
            raise PolicyError(
                f"The tag {key!r} cannot be written.", where="merge, metadata", do="Use a name without '=' or NUL."
            )
