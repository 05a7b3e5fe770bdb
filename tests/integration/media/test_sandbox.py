"""Probing in a process of its own: the same answers, and limits that hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from farm.errors import InputError, NotFoundError
from farm.media.probe import probe
from farm.media.sandbox import probe_safely
from tests.media_factory import MediaFactory


def test_the_answer_is_that_of_the_probe(media: MediaFactory) -> None:
    path = media.make("hevc_10_pq.mp4")
    assert probe_safely(path) == probe(path)


def test_reasons_come_through(media: MediaFactory, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="moov") as caught:
        probe_safely(media.make("truncated.mp4"))
    assert caught.value.do
    with pytest.raises(NotFoundError, match="no such file"):
        probe_safely(tmp_path / "nothing.mp4")


@pytest.mark.parametrize(
    "limit",
    [{"memory": 150 * 1024**2}, {"cpu_seconds": 0}, {"wall_seconds": 0.01}],
    ids=lambda limit: next(iter(limit)),
)
def test_a_limit_that_is_overrun_is_a_clear_error(media: MediaFactory, limit: dict[str, int]) -> None:
    with pytest.raises(InputError, match=r"cannot be trusted|more memory"):
        probe_safely(media.make("h264_closed.mp4"), **limit)
