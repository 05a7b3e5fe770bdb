"""Probing in a process of its own: the same answers, and limits that hold."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from farm.errors import InputError, NotFoundError
from farm.media.facts import PlateFacts
from farm.media.probe import probe
from farm.media.sandbox import FILES, _ask, probe_safely
from tests.media_factory import MediaFactory


def spin(_: Path) -> PlateFacts:
    """A parser that never ends."""
    while True:
        pass


def explode(path: Path) -> PlateFacts:
    raise ValueError(path)


def whose(path: Path) -> int:
    """The process that reads."""
    return os.getpid()


def die_of_the_second(path: Path) -> str:
    """What a file does that meets a process in which the one before left damage."""
    if getattr(die_of_the_second, "seen", False):
        os.abort()
    die_of_the_second.seen = True  # type: ignore[attr-defined]
    return str(os.getpid())


def test_a_process_reads_a_few_files_and_is_then_replaced(tmp_path: Path) -> None:
    memory = 3 * 1024**3  # a limit of our own: nobody else's readers
    readers = [_ask(whose, tmp_path, memory, 60, 60) for _ in range(FILES + 1)]
    assert len(set(readers[:FILES])) == 1
    assert readers[FILES] != readers[0]


def test_what_an_old_process_dies_of_is_read_by_a_new_one(tmp_path: Path) -> None:
    memory = 3 * 1024**3 - 1
    first, second = (_ask(die_of_the_second, tmp_path, memory, 60, 60) for _ in range(2))
    assert first != second


def test_a_refused_file_takes_its_process_with_it(media: MediaFactory, tmp_path: Path) -> None:
    memory = 3 * 1024**3 - 2
    before = _ask(whose, tmp_path, memory, 60, 60)
    with pytest.raises(InputError, match="moov"):
        probe_safely(media.make("truncated.mp4"), memory=memory)
    assert _ask(whose, tmp_path, memory, 60, 60) != before


def test_the_answer_is_that_of_the_probe(media: MediaFactory) -> None:
    path = media.make("hevc_10_pq.mp4")
    assert probe_safely(path) == probe(path)


SLOT = """
import sys
from pathlib import Path
import billiard
from farm.media.sandbox import probe_safely
def slot():
    print(probe_safely(Path(sys.argv[1])).model_dump_json(), flush=True)
made = billiard.get_context("fork").Process(target=slot)
made.daemon = True
made.start()
made.join()
raise SystemExit(made.exitcode)
"""
"""A process as Celery's prefork pool makes them."""


def test_a_slot_may_probe_though_it_is_a_daemonic_process_of_celerys_library(media: MediaFactory) -> None:
    path = media.make("h264_closed.mp4")
    done = subprocess.run(
        [sys.executable, "-c", SLOT, str(path)], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert PlateFacts.model_validate_json(done.stdout) == probe(path)


def test_reasons_come_through(media: MediaFactory, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="moov") as caught:
        probe_safely(media.make("truncated.mp4"))
    assert caught.value.do
    with pytest.raises(NotFoundError, match="no such file"):
        probe_safely(tmp_path / "nothing.mp4")


@pytest.mark.parametrize(
    "limit",
    [{"memory": 150 * 1024**2}, {"cpu_seconds": 1, "read": spin}, {"wall_seconds": 0.01, "read": spin}],
    ids=lambda limit: next(iter(limit)),
)
def test_a_limit_that_is_overrun_is_a_clear_error(media: MediaFactory, limit: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"cannot be trusted|more memory"):
        probe_safely(media.make("h264_closed.mp4"), **limit)


def test_a_fault_of_ours_is_told_without_the_files_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no answer") as caught:
        probe_safely(tmp_path / "secret name.mp4", read=explode)
    assert "secret" not in str(caught.value)
