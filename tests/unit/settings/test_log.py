from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from farm import log


@pytest.fixture
def out() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    stream = io.StringIO()
    yield stream
    root.handlers[:] = before
    root.setLevel(level)
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


def _lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_lines_carry_the_bound_ids(out: io.StringIO) -> None:
    log.configure(stream=out)
    log.bind(job="j1", worker="w1")
    with log.bound(chunk=3, attempt=2):
        structlog.get_logger("farm").info("chunk rendered", frames=480)
    log.bind(job=None)
    structlog.get_logger("farm").info("idle")
    first, second = _lines(out)
    assert first.items() >= {"job": "j1", "worker": "w1", "chunk": 3, "attempt": 2, "frames": 480}.items()
    assert first["event"] == "chunk rendered"
    assert first["level"] == "info"
    assert "job" not in second
    assert "chunk" not in second


def test_private_fields_are_redacted_at_any_depth_and_from_any_logger(out: io.StringIO) -> None:
    log.configure(stream=out)
    structlog.get_logger("farm").info(
        "x", path="/home/bob/film.mov", picture_name="bob", detail={"api_token": "t", "n": [1]}
    )
    logging.getLogger("celery").warning("y", extra={"broker_url": "redis://:pw@h"})
    text = out.getvalue()
    for private in ("bob", '"t"', "pw@h"):
        assert private not in text
    first, _ = _lines(out)
    assert first["detail"] == {"api_token": log.REDACTED, "n": [1]}


def test_object_keys_are_not_private(out: io.StringIO) -> None:
    log.configure(stream=out)
    structlog.get_logger("farm").info("stored", object_key="jobs/1/plate")
    assert _lines(out)[0]["object_key"] == "jobs/1/plate"


@pytest.mark.parametrize("style", ["json", "console"])
def test_tracebacks_do_not_show_local_variables(out: io.StringIO, style: Any) -> None:
    log.configure(style=style, stream=out)
    password = "".join(("hun", "ter2"))
    try:
        raise ValueError(len(password))
    except ValueError:
        structlog.get_logger("farm").exception("failed")
    assert "ValueError" in out.getvalue()
    assert "hunter2" not in out.getvalue()


def test_the_level_is_kept(out: io.StringIO) -> None:
    log.configure("warning", stream=out)
    structlog.get_logger("farm").info("quiet")
    logging.getLogger("other").info("quiet")
    structlog.get_logger("farm").warning("loud")
    assert [line["event"] for line in _lines(out)] == ["loud"]
