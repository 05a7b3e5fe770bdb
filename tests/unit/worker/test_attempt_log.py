"""An attempt's log: bounded, without anything private, in the store while it is written."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

import farm.log
from farm.errors import InfrastructureError, InputError
from farm.log import scrubbed
from farm.store.memory import MemoryStore
from farm.worker.attempt_log import HEAD_BYTES, TAIL_BYTES, AttemptLogs, LogKey, bounded, cause_of, last_words

KEY = LogKey("j1", "t1", "a1")


@pytest.fixture
def logging_as_in_a_worker() -> Iterator[None]:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    farm.log.configure("info", "json")
    yield
    structlog.reset_defaults()
    root.handlers[:] = before
    root.setLevel(level)


def test_lines_of_the_farm_and_of_libraries_are_kept(tmp_path: Path, logging_as_in_a_worker: None) -> None:
    store = MemoryStore()
    with AttemptLogs(tmp_path, store).keeping(KEY) as kept:
        structlog.get_logger("farm.test").info("chunk begun", frames=12, path="/home/jane/My film.mov")
        logging.getLogger("some.library").warning("cannot read %s", "/home/jane/wedding.mov")
        logging.getLogger("some.library").debug("not of interest")
        kept.send()
        said = store.get_bytes(KEY.object_key).decode()
    assert "chunk begun" in said
    assert "frames=12" in said
    assert "cannot read" in said
    assert "not of interest" not in said
    for private in ("jane", "wedding", "film"):
        assert private not in said
    assert list(tmp_path.iterdir()) == [], "what is in the store need not lie here"


def test_a_traceback_says_where_and_nothing_of_the_values(tmp_path: Path, logging_as_in_a_worker: None) -> None:
    store, secret = MemoryStore(), "s3cr3t"
    with AttemptLogs(tmp_path, store).keeping(KEY):
        try:
            raise ValueError(f"password={secret}")
        except ValueError:
            structlog.get_logger("farm.test").exception("task failed")
    said = store.get_bytes(KEY.object_key).decode()
    assert "ValueError" in said
    assert secret not in said


def test_a_log_is_bounded_and_keeps_both_ends(tmp_path: Path, logging_as_in_a_worker: None) -> None:
    store, talk = MemoryStore(), logging.getLogger("talk")
    with AttemptLogs(tmp_path, store).keeping(KEY):
        for number in range(2400):
            talk.info("line %06d %s", number, "x" * 500)
    said = store.get_bytes(KEY.object_key).decode()
    assert HEAD_BYTES < len(said) <= HEAD_BYTES + TAIL_BYTES + 100
    assert "line 000000" in said
    assert "line 002399" in said
    assert "lines left out]" in said
    assert len(bounded("é" * 2_000_000)) <= HEAD_BYTES + TAIL_BYTES + 100


def test_a_store_that_is_away_costs_the_task_nothing(
    tmp_path: Path, logging_as_in_a_worker: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore()

    def away(*_: object, **__: object) -> None:
        raise InfrastructureError("away")

    monkeypatch.setattr(store, "put_file", away)
    with AttemptLogs(tmp_path, store).keeping(KEY):
        structlog.get_logger("farm.test").info("chunk begun")
    assert len(list(tmp_path.iterdir())) == 1, "it is kept for when the store is back"


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("get s3://bucket/Jane Doe.mov failed", "get s3://[redacted] Doe.mov failed"),
        ("postgresql://farm:pw@db/farm refused", "postgresql://[redacted] refused"),
        ("open '/home/jane/a b.mov': no such file", "open '[redacted]': no such file"),
        ('File "/opt/x/site-packages/cv2/a.py", line 3', 'File "site-packages/cv2/a.py", line 3'),
        ('File "/srv/repo/farm/faces/track.py", line 88', 'File "farm/faces/track.py", line 88'),
        ("Authorization: Bearer abc", "Authorization: [redacted] abc"),
        ("token=abc", "token=[redacted]"),
        ("from jane.doe@example.com", "from [redacted]"),
        ("12/24 frames, 3.5 fps, 1/2 done", "12/24 frames, 3.5 fps, 1/2 done"),
        ("job 01HX chunk 3: frame 12 cannot be decoded", "job 01HX chunk 3: frame 12 cannot be decoded"),
    ],
)
def test_free_text_is_scrubbed(said: str, kept: str) -> None:
    assert scrubbed(said) == kept


def test_the_cause_is_the_first_error_and_its_place_in_the_farms_code() -> None:
    try:
        try:
            scrubbed(None)  # type: ignore[arg-type]
        except TypeError as error:
            raise InputError("It is not usable.") from error
    except InputError as error:
        cause = cause_of(error)
    assert cause.startswith("TypeError in farm/log.py:")
    assert "(scrubbed)" in cause


def test_the_last_words_of_a_crash_name_it_and_its_place() -> None:
    text = (
        "12:00 [info] chunk begun\nFatal Python error: Segmentation fault\n\nCurrent thread 0x01 (most recent call):\n"
        '  File "/usr/lib/python3.11/threading.py", line 1 in run\n'
        '  File "/srv/farm/inference/session.py", line 120 in run\n'
    )
    assert last_words(text) == "Fatal Python error: Segmentation fault in farm/inference/session.py:120 (run)"
    assert last_words("a\n12:01 [info] frame 7\n\n") == "Its last words: 12:01 [info] frame 7"
    assert last_words("") == ""
