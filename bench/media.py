"""Planning, cutting, merging and passthrough against plain ffmpeg on the same files, in the same run.

Each measurement is a process of its own on two cores, in turn with the ffmpeg that it is compared with; each goes first
in every second pair. The ratio is of each such pair, and the median of the pairs counts. Plates are made by ffmpeg: a
two-hour film of small packets, a 1080p film of large ones.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from bench.common import Goal, at_least, at_most, exactly, finish, noted
from bench.media_clips import LOOP_SECONDS, RATE, Clips, run_ffmpeg
from bench.media_job import render_by_farm

Goals = dict[str, Goal]
Answer = dict[str, Any]
_LOOP_FRAMES = LOOP_SECONDS * RATE


class Plain(NamedTuple):
    """What one run of ffmpeg took: by the clock, and of processor time."""

    seconds: float
    cpu_seconds: float


Pairs = list[tuple[Plain, Answer]]


@dataclass
class Bench:
    """Where the work lies and how much of it there is."""

    folder: Path
    clips: Clips
    repeats: int
    long_minutes: float
    large_minutes: float
    pass_seconds: float
    chunks: int

    def child(self, task: str, **arguments: Any) -> Answer:
        """One task of `bench.media_child`, in an empty folder where it asks for none."""
        work = self.folder / "work"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        given = {"folder": str(work), **{key: _plain(value) for key, value in arguments.items()}}
        command = [sys.executable, "-m", "bench.media_child", task, json.dumps(given)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        shutil.rmtree(work)
        if done.returncode:
            raise RuntimeError(f"{task} failed:\n{done.stderr[-3000:]}")
        answer: Answer = json.loads(done.stdout.splitlines()[-1])
        print(f"  {task} {answer}", file=sys.stderr, flush=True)
        return answer

    def job(self, plate: Path) -> Answer:
        """A plate through an embedded farm of its own: what was rendered once would be taken over the next time."""
        home, out = self.folder / "home", self.folder / "passed.mp4"
        try:
            answer = render_by_farm(plate, home, out)
        finally:
            shutil.rmtree(home, ignore_errors=True)
            out.unlink(missing_ok=True)
        print(f"  job {answer}", file=sys.stderr, flush=True)
        return answer

    def pairs(self, plain: Callable[[], Plain], ours: Callable[[], Answer], times: int) -> Pairs:
        """Both in turn, so many times; each goes first in every second pair."""
        pairs = []
        for number in range(times):
            if number % 2:
                answer = ours()
                pairs.append((plain(), answer))
            else:
                pairs.append((plain(), ours()))
        return pairs

    def ffmpeg(self, *arguments: str | Path) -> Plain:
        """What ffmpeg takes to write a file, which is then removed."""
        out = self.folder / "plain.mp4"
        begun, before = time.perf_counter(), _children_cpu()
        run_ffmpeg(*arguments, out)
        plain = Plain(time.perf_counter() - begun, _children_cpu() - before)
        out.unlink(missing_ok=True)
        print(f"  ffmpeg {plain}", file=sys.stderr, flush=True)
        return plain

    def copied(self, path: Path) -> Plain:
        """What `ffmpeg -c copy` of all streams of a file takes."""
        return self.ffmpeg("-i", path, "-map", "0", "-c", "copy")

    def decoded(self, path: Path) -> Plain:
        """What ffmpeg takes to decode a file's picture and to throw it away."""
        return self.ffmpeg("-i", path, "-map", "0:v", "-f", "null")


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else value


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _speed(pairs: Pairs, of: str = "seconds") -> float:
    """Ours as a part of ffmpeg's speed: the median of the pairs' ratios."""
    return _median([plain.seconds / answer[of] for plain, answer in pairs])


def _cpu(pairs: Pairs, of: str = "cpu_seconds", why: str = "our program's start included") -> Goal:
    ratio = _median([plain.cpu_seconds / answer[of] for plain, answer in pairs])
    return noted(ratio, f"the same by processor time, {why}")


def _median(values: list[float]) -> float:
    return statistics.median(values)


def planning(bench: Bench) -> Goals:
    """Probe, scan, plan and cut, against `ffmpeg -c copy`; memory; the first chunk."""
    goals: Goals = {}
    for name, plate in (
        ("long", bench.clips.small(bench.long_minutes)),
        ("1080p", bench.clips.large(bench.large_minutes)),
    ):

        def ours(plate: Path = plate, *, stored: bool = False, scenes: bool = False) -> Answer:
            return bench.child("plan", plate=plate, stored=stored, scenes=scenes)

        def plain(plate: Path = plate) -> Plain:
            return bench.copied(plate)

        pairs = bench.pairs(plain, ours, bench.repeats)
        stored = [ours(stored=True, scenes=True)]
        answers = [answer for _, answer in pairs]
        copied = _median([taken.seconds for taken, _ in pairs])
        what = f"{answers[0]['frames']} frames, {plate.stat().st_size >> 20} MiB; ffmpeg took {copied:.2f} s"
        goals[f"plan_speed_{name}"] = at_least(_speed(pairs), 0.7, what)
        goals[f"plan_cpu_speed_{name}"] = _cpu(pairs)
        most = max(a["peak_mib"] for a in [*answers, *stored])
        goals[f"plan_peak_mib_{name}"] = at_most(most, 400, "the most of all runs")
        first = _median([answer["first_seconds"] for answer in stored])
        why = "from probe to segment in a folder store, a scene cut looked for"
        goals[f"first_chunk_seconds_{name}"] = at_most(first, 3, why)
        speed = copied / _median([answer["seconds"] for answer in stored])
        why = "scene cuts looked for, each segment put into a folder store and synced"
        goals[f"plan_and_store_speed_{name}"] = noted(speed, why)
    return goals


def merging(bench: Bench) -> Goals:
    """Merge 20-second chunks of 1080p H.264 by copying, against `ffmpeg -c copy`; the decode check by itself.

    The pair: ours checks each chunk against the plan, hashes it, joins the packets on the plate's clock and muxes them
    with the plate's sound; ffmpeg copies the film that came out, the same bytes. The check by decoding comes after, in
    the product too, and is measured against ffmpeg decoding the same film.
    """
    plate, minute = bench.clips.large(bench.large_minutes), bench.clips.large(1)
    chunks, film = bench.folder / "chunks", bench.folder / "film.mp4"
    chunks.mkdir(exist_ok=True)
    given: Answer = {"folder": chunks, "frames": _LOOP_FRAMES, "out": film}
    bench.child("one_chunk", plate=plate, folder=chunks, frames=_LOOP_FRAMES)
    # The first merge makes the film that ffmpeg copies.
    answer = bench.child("merge", plate=plate, whole=False, **given)
    pairs = bench.pairs(
        lambda: bench.copied(film), lambda: bench.child("merge", plate=plate, whole=False, **given), bench.repeats
    )
    fetched = bench.pairs(
        lambda: bench.copied(film),
        lambda: bench.child("merge", plate=plate, whole=False, fetched=True, **given),
        bench.repeats,
    )
    size = film.stat().st_size >> 20
    plain = _median([taken.seconds for taken, _ in pairs])
    what = f"{answer['chunks']} chunks, {size} MiB, hashed, joined, muxed; ffmpeg took {plain:.2f} s"
    bench.child("merge", plate=minute, whole=True, **given)
    checks = bench.pairs(lambda: bench.decoded(film), lambda: bench.child("verify", plate=minute, **given), 2)
    checked = _median([answer["frames"] / answer["seconds"] for _, answer in checks])
    return {
        "merge_speed": at_least(_speed(pairs), 0.6, what),
        "merge_cpu_speed": _cpu(pairs),
        "merge_fetched_speed": at_least(
            _speed(fetched), 0.6, "as a job does it: the fetch found the hashes, which are compared"
        ),
        "merge_peak_mib": noted(max(a["peak_mib"] for _, a in pairs), "of the process that joins"),
        "verify_fps": noted(checked, "the check by decoding, 1080p, every frame and packet compared"),
        "verify_speed": noted(_speed(checks), "of that check, against ffmpeg decoding the picture"),
    }


def many_chunks(bench: Bench) -> Goals:
    """Merge and verify thousands of chunks with 256 file handles."""
    plate, chunks = bench.clips.many(bench.chunks * 2), bench.folder / "many"
    chunks.mkdir(exist_ok=True)
    bench.child("one_chunk", plate=plate, folder=chunks, frames=2)
    film = bench.folder / "many.mp4"
    answer = bench.child("merge", plate=plate, folder=chunks, out=film, frames=2, whole=True, handles=256)
    return {
        "chunks_merged_with_256_handles": exactly(
            answer["chunks"] if answer["frames"] == bench.chunks * 2 else 0, bench.chunks, "merged, read back, right"
        ),
        "many_chunks_seconds": noted(answer["seconds"], "of that merge"),
    }


def passthrough(bench: Bench) -> Goals:
    """A 1080p minute to `h264` by an embedded farm, against one ffmpeg that decodes and encodes the same way."""
    plate = bench.clips.large(bench.pass_seconds / 60)
    settings = _as_options(bench.child("settings", plate=plate)["options"])

    def plain() -> Plain:
        return bench.ffmpeg("-i", plate, "-map", "0", "-c:v", "libx264", *settings, "-c:a", "copy")

    # Minutes each, so two pairs must do.
    pairs = bench.pairs(plain, lambda: bench.job(plate), min(2, bench.repeats))
    seconds = _median([taken.seconds for taken, _ in pairs])
    what = (
        f"from the first chunk's claim to the last one's end, {bench.pass_seconds:.0f} s; ffmpeg took {seconds:.1f} s"
    )
    whole = "the whole job: plan, cut, render, merge, verify by decoding"
    return {
        "passthrough_speed": at_least(_speed(pairs, "render_seconds"), 0.9, what),
        "passthrough_job_speed": noted(_speed(pairs), whole),
        "passthrough_job_cpu_speed": _cpu(pairs, why="the farm's start and end and its services included"),
    }


def _as_options(settings: dict[str, str]) -> list[str]:
    return [
        word for key, value in settings.items() for word in (f"-{key}:v" if key != "threads" else "-threads", value)
    ]


SECTIONS: dict[str, Callable[[Bench], Goals]] = {
    "planning": planning,
    "merging": merging,
    "many_chunks": many_chunks,
    "passthrough": passthrough,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.media", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=sorted(SECTIONS), help="sections to run; no result is kept")
    parser.add_argument("--quick", action="store_true", help="small plates, one pair each; no result is kept")
    parser.add_argument("--repeats", type=int, default=3, help="pairs of each measurement")
    parser.add_argument("--clips", type=Path, help="a folder that keeps the plates for the next run")
    arguments = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    goals: Goals = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        clips = Clips(arguments.clips or folder / "clips")
        bench = Bench(
            folder, clips, arguments.repeats, long_minutes=120, large_minutes=10, pass_seconds=60, chunks=5000
        )
        if arguments.quick:
            bench = Bench(folder, clips, 1, long_minutes=6, large_minutes=1, pass_seconds=20, chunks=200)
        for section, measure in SECTIONS.items():
            if arguments.only is None or section in arguments.only:
                print(f"{section}: {(measure.__doc__ or '').splitlines()[0]}", file=sys.stderr, flush=True)
                goals.update(measure(bench))
        if arguments.only is not None or arguments.quick:
            return finish("media", goals, results=folder)
        return finish("media", goals)


if __name__ == "__main__":
    sys.exit(main())
