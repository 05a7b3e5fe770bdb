from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest

from farm.api.schemas import JobOut, Progress, WarningOut
from farm.cli.exits import Exit, JobFailedError
from farm.cli.progress import PATIENCE, Lines, follow, news, numbers, require_completed
from farm.client import Client


def job(state: str = "running", **more: Any) -> JobOut:
    final = state in ("completed", "failed", "cancelled")
    return JobOut(
        id="j",
        state=state,
        final=final,
        recipe="swap",
        priority=50,
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        **more,
    )


class Scripted(Client):
    def __init__(self, *views: JobOut) -> None:
        self._views = iter(views)

    def job(self, job_id: str) -> JobOut:
        return next(self._views)


def test_a_job_is_followed_to_its_end() -> None:
    seen: list[str] = []
    pauses: list[float] = []
    views = [job("queued"), job("running"), job("completed")]
    last = follow(Scripted(*views), "j", lambda view: seen.append(view.state), sleep=pauses.append)
    assert (last.state, seen, len(pauses)) == ("completed", ["queued", "running", "completed"], 2)


def test_an_end_that_is_no_success_says_why_and_which_kind() -> None:
    assert require_completed(job("completed")).state == "completed"
    with pytest.raises(JobFailedError, match="frame 12") as caught:
        require_completed(job("failed", reason="Chunk 1: frame 12 cannot be decoded.", error_class="input"))
    assert caught.value.code is Exit.BAD_INPUT
    with pytest.raises(JobFailedError, match="cancelled"):
        require_completed(job("cancelled"))


def test_numbers_say_what_is_known() -> None:
    assert numbers(job()) == ""
    at = Progress(frames_done=120, frames_total=576, chunks_done=1, chunks_total=3, fps=12.44, eta_seconds=37)
    assert numbers(job(progress=at)) == "120 of 576 frames, 1 of 3 chunks, 12.4 frames/s, 37 s left"
    assert "left" not in numbers(job("completed", progress=at))


def test_why_nothing_happens_is_said_once_it_has_lasted() -> None:
    seen: Counter[str] = Counter()
    views = [news(job("queued", why="No worker is connected."), seen) for _ in range(3 * PATIENCE)]
    assert [line for view in views for line in view] == ["waiting: No worker is connected."]
    assert views[0] == []


def test_lines_are_said_once_and_not_too_often() -> None:
    said: list[str] = []
    now = [100.0]
    lines = Lines(said.append, lambda: now[0])
    warning = [WarningOut(code="vfr", text="The rate varies.")]
    for frames, later in ((0, 0.0), (10, 1.0), (20, 1.0), (90, 6.0)):
        now[0] += later
        lines(job(progress=Progress(frames_done=frames, frames_total=100), warnings=warning))
    lines(job("completed", progress=Progress(frames_done=100, frames_total=100), warnings=warning))
    assert said == [
        "warning: The rate varies.",
        "running: 0 of 100 frames",
        "running: 90 of 100 frames",
        "completed: 100 of 100 frames",
    ]
