"""Follows a job to its end: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from farm.api.schemas import JobOut
from farm.cli.exits import JobFailedError, code_of_class
from farm.cli.output import seconds_in_words
from farm.client import Client
from farm.words import counted

POLL_SECONDS = 0.4
LINE_SECONDS = 5.0
PATIENCE = 8
_STANDING = frozenset({"waiting", "queued", "awaiting_cast", "paused"})


class Show(Protocol):
    """Is told of the job each time it was looked at."""

    def __call__(self, job: JobOut, /) -> None: ...


def follow(client: Client, job_id: str, show: Show, *, sleep: Callable[[float], None] = time.sleep) -> JobOut:
    """The job when it is final. A job that waits for a person is shown, and waited for."""
    while True:
        job = client.job(job_id)
        show(job)
        if job.final:
            return job
        sleep(POLL_SECONDS)


def require_completed(job: JobOut) -> JobOut:
    """The job; JobFailedError with its reason where it ended in another way."""
    if job.state == "completed":
        return job
    if job.state == "cancelled":
        raise JobFailedError(f"The job was cancelled. {job.reason}", where=f"job {job.id}", do="Submit it again.")
    raise JobFailedError(job.reason or "The job failed.", where=f"job {job.id}", code=code_of_class(job.error_class))


@contextmanager
def shown(console: Console) -> Iterator[Show]:
    """A display for `follow` that fits where stderr goes."""
    if console.is_terminal:
        with _bar(console) as show:
            yield show
    else:
        yield Lines(lambda line: console.print(line, markup=False))


@contextmanager
def _bar(console: Console) -> Iterator[Show]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        TextColumn("{task.percentage:>3.0f} %"),
        TextColumn("{task.fields[numbers]}", style="dim"),
    )
    with Progress(*columns, console=console, transient=False) as progress:
        task: TaskID = progress.add_task("waiting", total=None, numbers="")
        seen: Counter[str] = Counter()

        def show(job: JobOut) -> None:
            for line in news(job, seen):
                progress.console.print(line, markup=False)
            progress.update(
                task,
                description=job.state.replace("_", " "),
                total=job.progress.frames_total,
                completed=job.progress.frames_done,
                numbers=numbers(job),
            )

        yield show


class Lines:
    """Prints a line when the state changes, and now and then while frames are rendered."""

    def __init__(self, write: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._write = write
        self._clock = clock
        self._seen: Counter[str] = Counter()
        self._state = ""
        self._at = 0.0
        self._frames = -1

    def __call__(self, job: JobOut) -> None:
        for line in news(job, self._seen):
            self._write(line)
        changed = job.state != self._state
        moved = job.progress.frames_done != self._frames
        if changed or (moved and self._clock() - self._at >= LINE_SECONDS):
            tail = numbers(job)
            self._write(f"{job.state.replace('_', ' ')}{': ' if tail else ''}{tail}")
            self._state, self._at, self._frames = job.state, self._clock(), job.progress.frames_done


def news(job: JobOut, seen: Counter[str]) -> list[str]:
    """What was not said yet: warnings at once; why nothing happens, once it has been so for a few looks."""
    lines = [f"warning: {warning.text}" for warning in job.warnings]
    seen.update(lines)
    fresh = [line for line in lines if seen[line] == 1]
    if job.why and job.state in _STANDING:
        waiting = f"waiting: {job.why}"
        seen[waiting] += 1
        fresh += [waiting] if seen[waiting] == PATIENCE else []
    return fresh


def numbers(job: JobOut) -> str:
    """`120 of 576 frames, 1 of 3 chunks, 12.4 frames/s, 37 s left`, as far as it is known."""
    at = job.progress
    parts = []
    if at.frames_total:
        parts.append(f"{at.frames_done} of {counted(at.frames_total, 'frame')}")
    if at.chunks_total:
        parts.append(f"{at.chunks_done} of {counted(at.chunks_total, 'chunk')}")
    if at.fps:
        parts.append(f"{at.fps:.1f} frames/s")
    if at.eta_seconds and job.state == "running":
        parts.append(f"{seconds_in_words(at.eta_seconds)} left")
    return ", ".join(parts)
