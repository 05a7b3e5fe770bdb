"""The measured work of the media benchmark, each task in a process of its own: `python -m bench.media_child TASK JSON`.

A task prints one JSON line: `seconds` of its own clock, from when everything is imported, as in a worker that is warm;
`peak_mib`, the process's peak memory by its resource usage; `cpu_seconds`, with those of the ffmpeg that it ran.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from farm.chunker.cut import CutChunk, PlateCutter
from farm.chunker.shelve import Keys, stored_chunks
from farm.faces.track import AFTER, BEFORE
from farm.media.deliverables import deliverable
from farm.media.encoders import EncoderPlan, chunk_encoder
from farm.media.facts import PlateFacts
from farm.media.probe import probe
from farm.media.reader import read_plate
from farm.media.sandbox import probe_safely
from farm.media.scan import scan_timeline
from farm.media.timeline import Timeline
from farm.media.whole import job_encoder
from farm.media.writer import ChunkFacts, ChunkWriter, file_sha256
from farm.merger.check import check_chunks
from farm.merger.film import Film
from farm.merger.join import ChunkFile
from farm.merger.merge import merge, mux_film
from farm.merger.verify import verify
from farm.store.folder import FolderStore
from farm.store.signing import UrlSigner

_CHUNK_SECONDS = 20.0

Answer = dict[str, Any]


def plan(plate: str, folder: str, *, stored: bool, scenes: bool) -> Answer:
    """Probe, scan, plan and cut a plate; `stored`: and put all into a folder store, as the plan task does.

    `scenes`: boundaries are looked for at scene cuts, as for recipes that remember.
    """
    path, work = Path(plate), Path(folder)
    store = FolderStore(work / "store", UrlSigner(os.urandom(16)))
    probe_safely(path)  # the process that its children are forked from is there after a worker's first plate
    begun, first, chunks = time.perf_counter(), 0.0, 0
    # With the context of a recipe that changes faces.
    cutter = PlateCutter(
        path, probe_safely(path), work, target_seconds=_CHUNK_SECONDS, before=BEFORE, after=AFTER, at_scenes=scenes
    )
    kept: Iterator[object]
    if stored:
        kept = stored_chunks(
            cutter, store, lambda n: Keys(f"segments/{n}", f"timelines/{n}"), before=BEFORE, after=AFTER
        )
    else:
        kept = _unlinked(cutter)
    for _ in kept:
        first = first or time.perf_counter() - begun
        chunks += 1
    frames = len(cutter.timeline())
    return {"seconds": time.perf_counter() - begun, "first_seconds": first, "chunks": chunks, "frames": frames}


def _unlinked(cutter: PlateCutter) -> Iterator[CutChunk]:
    for chunk in cutter.run():
        chunk.segment.path.unlink()
        yield chunk


def _encoder(facts: PlateFacts) -> EncoderPlan:
    return chunk_encoder(deliverable("h264"), facts, hardware=False, threads=_cores())


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def one_chunk(plate: str, folder: str, frames: int) -> Answer:
    """Encode the first `frames` frames of a plate: the chunk that `chunks_of` repeats, as the plate repeats itself."""
    path = Path(plate)
    facts = probe(path)
    timeline = scan_timeline(path, facts)
    target = Path(folder) / f"chunk-{frames}"
    with ChunkWriter(target, _encoder(facts), facts, timeline, 0, frames) as writer:
        for frame in read_plate(path, facts, timeline):
            if frame.index == frames:
                break
            writer.write(frame)
        made = writer.close()
    target.with_suffix(".json").write_text(made.model_dump_json())
    return {"seconds": 0.0}


def _chunks_of(folder: Path, frames: int, timeline: Timeline) -> list[ChunkFile]:
    """Chunk files for a whole plate, copies of the one that was encoded."""
    made = ChunkFacts.model_validate_json((folder / f"chunk-{frames}.json").read_text())
    chunks = []
    for first in range(0, len(timeline), frames):
        path = folder / f"{frames}-{first}"
        if not path.exists():
            shutil.copyfile(folder / f"chunk-{frames}", path)
        last = first + frames
        times = {"first_pts": int(timeline.pts[first]), "last_pts": int(timeline.pts[last - 1])}
        chunks.append(ChunkFile(path, made.model_copy(update={"first": first, "last": last, **times})))
    return chunks


def merge_chunks(
    plate: str, folder: str, out: str, frames: int, *, whole: bool, handles: int = 0, fetched: bool = False
) -> Answer:
    """Check the chunks, hash, join and mux the film; `whole`: the merge as it is, which also decodes all of it again.

    `fetched`: the hashes are known from the fetch, as in the merge task, and only compared. `handles` limits how many
    files may be open at a time, here and in ffmpeg. A merge in a job writes a new file, so one that is there goes
    first: to empty it and to write over it makes the system write all to the disk at once.
    """
    Path(out).unlink(missing_ok=True)
    film, chunks = _film(Path(plate), Path(folder), frames)
    if fetched:
        chunks = [chunk._replace(sha256=file_sha256(chunk.path)) for chunk in chunks]
    if handles:
        resource.setrlimit(resource.RLIMIT_NOFILE, (handles, handles))
    begun = time.perf_counter()
    if whole:
        report = merge(film.plate, film.facts, film.timeline, chunks, film.plan, Path(out), threads=_cores())
        merged = report.verified.frames_out if report.verified.ok else 0
    else:
        mux_film(film, Path(out), check_chunks(chunks, film.timeline, film.plan))
        merged = 0
    return {"seconds": time.perf_counter() - begun, "chunks": len(chunks), "frames": merged}


def verify_film(plate: str, folder: str, out: str, frames: int) -> Answer:
    """The check of a merged film alone: every frame decoded and compared, every other packet accounted for."""
    film, chunks = _film(Path(plate), Path(folder), frames)
    begun = time.perf_counter()
    report = verify(Path(out), film, [chunk.facts for chunk in chunks], threads=_cores())
    seconds = time.perf_counter() - begun
    return {"seconds": seconds, "frames": report.frames_out if report.ok else 0}


def _film(plate: Path, folder: Path, frames: int) -> tuple[Film, list[ChunkFile]]:
    facts = probe(plate)
    timeline = scan_timeline(plate, facts)
    return Film.of(plate, facts, timeline, _encoder(facts)), _chunks_of(folder, frames, timeline)


def settings(plate: str, folder: str) -> Answer:
    """The encoder options of a job's `h264`, for the ffmpeg that it is compared with."""
    return {"options": job_encoder("h264", probe(Path(plate)), max_bytes=None, hardware=False).options}


TASKS: dict[str, Callable[..., Answer]] = {
    "plan": plan,
    "one_chunk": one_chunk,
    "merge": merge_chunks,
    "verify": verify_film,
    "settings": settings,
}


def main() -> None:
    answer = TASKS[sys.argv[1]](**json.loads(sys.argv[2]))
    own, others = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    answer["peak_mib"] = own.ru_maxrss / 1024
    answer["cpu_seconds"] = own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
