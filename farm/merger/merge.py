"""The merge: check the chunks, join them, mux what the plate carries beside its picture, read it all back, publish."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from farm.errors import FarmError, PolicyError, RecipeError
from farm.media import ffmpeg
from farm.media.container import open_container
from farm.media.encoders import EncoderPlan
from farm.media.facts import PlateFacts, Rational
from farm.media.timeline import Timeline
from farm.media.writer import ChunkFacts
from farm.merger.adts import unreadable
from farm.merger.carry import Carried, Way, is_cover
from farm.merger.check import check_chunks
from farm.merger.film import Film
from farm.merger.hashes import hashes_right
from farm.merger.join import ChunkFile, first_dts, is_boxed, write_joined
from farm.merger.mux import index_room, mux_arguments
from farm.merger.reel import write_reel
from farm.merger.report import VerifyReport
from farm.merger.verify import verify
from farm.merger.whole import Progress, WholeEncode, bits_for, final_here
from farm.words import counted

_MOST_TRIES, _MARGIN = 4, 0.99


def _unheard(_frames: int, _note: str) -> None:
    """For callers that do not want to know."""


class MergeReport(BaseModel):
    """What a merge made. `shift` seconds were added to every time stamp; `concealed` frames repeat the one before."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    chunks: int
    frames: int
    size: int
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
    untouched: bool = False,
    progress: Progress = _unheard,
) -> MergeReport:
    """Make the deliverable `out` of the chunk files; it appears only when it was read back and found right.

    `metadata` goes into the file's global tags. `untouched` says that no processor ran, so that seams must look as the
    plate does. Where the plan has `finals`, the chunks are encoded as one first, which `progress` hears of.
    FarmError names the chunk, frame or pts that is wrong; then `out` is not touched and nothing is left behind.
    """
    if not chunks:
        raise FarmError("There are no chunks.", where="merge", do="Render the job first.")
    _check_metadata(metadata or {})
    film = Film.of(plate, facts, timeline, plan, metadata, untouched=untouched)
    ordered = check_chunks(chunks, timeline, plan)
    film = film.measured()
    part = out.with_name(f".{os.getpid()}-{out.name[-100:]}.part")
    try:
        if not plan.finals:
            mux_film(film, part, ordered)
            report = verify(part, film, [chunk.facts for chunk in ordered], threads=threads)
        else:
            film, made = _fitted(film, final_here(plan.finals), ordered, part, progress)
            report = verify(part, film, [made], threads=threads)
        if not report.ok:
            raise FarmError(
                f"The merged file is not right: {report.words()}",
                where=f"merge of {counted(len(ordered), 'chunk')} to {plan.deliverable}",
                do="Merge again; if it fails the same way, render the chunk that holds the frame again.",
            )
        merged = _report(film, part, ordered, report)
        part.replace(out)
    finally:
        part.unlink(missing_ok=True)
    return merged


def _report(film: Film, part: Path, chunks: Sequence[ChunkFile], verified: VerifyReport) -> MergeReport:
    return MergeReport(
        chunks=len(chunks),
        frames=len(film.timeline),
        size=part.stat().st_size,
        shift=film.shift,
        encoder=film.plan.encoder,
        carried=film.carried,
        concealed=tuple(frame for chunk in chunks for frame in chunk.facts.concealed),
        verified=verified,
    )


def _fitted(
    film: Film, final: EncoderPlan, chunks: Sequence[ChunkFile], part: Path, progress: Progress
) -> tuple[Film, ChunkFacts]:
    """Encode the whole and write `part`, with fewer bits each time that it came out larger than the plan allows."""
    most = film.plan.max_bytes or 0
    with tempfile.TemporaryDirectory(dir=part.parent) as name:
        encode, bits = WholeEncode(film, final, chunks, Path(name)), bits_for(film, most)
        for _ in range(_MOST_TRIES):
            whole, plan = encode.run(bits, progress)
            made = replace(film, plan=plan)
            mux_film(made, part, [whole])
            over = part.stat().st_size - most
            if over <= 0:
                return made, whole.facts
            bits = max(1, int(bits * (whole.facts.size - over) / whole.facts.size * _MARGIN))
    raise RecipeError(
        f"The file is still {over:,} bytes larger than {most:,} after {_MOST_TRIES} encodes.",
        where=f"deliverable {final.deliverable}",
        do="Allow a larger file.",
    )


def mux_film(film: Film, part: Path, chunks: Sequence[ChunkFile]) -> None:
    """Write `part`: the chunks, in order, hashed, joined and muxed with the plate's other streams.

    OSError where a chunk's file is gone.
    """
    with tempfile.TemporaryDirectory(dir=part.parent) as name, hashes_right(chunks):
        folder = Path(name)
        reel = write_reel(chunks, film.timeline, folder) if is_boxed(chunks[0]) else None
        covers, room = _covers(film, folder), index_room(film, sum(chunk.facts.size for chunk in chunks))
        try:
            _mux(film, part, chunks, reel, covers, room)
        except FarmError as error:
            if room and _NO_ROOM in str(error):
                room = 0
            # Sound that is damaged is seldom, so only a failure makes it worth looking for.
            elif dropped := unreadable(film.plate, film.carried):
                film = replace(film, dropped=dropped)
            else:
                raise
            _mux(film, part, chunks, reel, covers, room)


_NO_ROOM = "reserved_moov_size is too small"


def _mux(
    film: Film,
    part: Path,
    chunks: Sequence[ChunkFile],
    reel: Path | None,
    covers: Mapping[int, Path],
    room: int,
) -> None:
    start = first_dts(chunks, film.timeline)
    ffmpeg.run(
        mux_arguments(film, part, first_dts=start, reel=reel, covers=covers, index_bytes=room),
        where=f"muxing {film.plan.deliverable}",
        feed=None if reel is not None else lambda pipe: write_joined(chunks, film.timeline, pipe),
        hide=(film.plate.absolute(), part.absolute(), film.plate, part),
    )


def _covers(film: Film, folder: Path) -> dict[int, Path]:
    """Cover pictures as files in `folder`: the muxer takes attachments from files only."""
    ways = {item.index: item.way for item in film.carried}
    wanted = [s.index for s in film.facts.streams if is_cover(s) and ways[s.index] is Way.COPY]
    covers: dict[int, Path] = {}
    for index in wanted:
        with open_container(film.plate) as container:
            packet = next(p for p in container.demux(container.streams[index]) if p.size)
            covers[index] = folder / f"cover-{index}"
            covers[index].write_bytes(bytes(packet))
    return covers


def _check_metadata(metadata: Mapping[str, str]) -> None:
    for key, value in metadata.items():
        if not key or "=" in key or "\0" in key + value:
            raise PolicyError(
                f"The tag {key!r} cannot be written.", where="merge, metadata", do="Use a name without '=' or NUL."
            )
