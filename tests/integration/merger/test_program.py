"""The ffmpeg program: drained, bounded, killed, and quoted only in its last words."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import IO

import psutil
import pytest

from farm.errors import FarmError, InfrastructureError
from farm.media import ffmpeg


def children() -> list[psutil.Process]:
    return [p for p in psutil.Process().children() if "ffmpeg" in p.name()]


def test_a_talkative_program_does_not_hang_and_is_quoted_briefly() -> None:
    words = ffmpeg.run(
        ["-loglevel", "debug", "-f", "lavfi", "-i", "testsrc2=duration=20:size=32x32", "-f", "null", "-"], where="test"
    )
    assert 0 < len(words) < 8000


def test_a_failure_says_why_without_the_hidden_names(tmp_path: Path) -> None:
    plate = tmp_path / "someone.mp4"
    plate.write_text("not a film")
    with pytest.raises(FarmError, match="ffmpeg ended with code") as caught:
        ffmpeg.run(["-i", f"file:{plate}", "-f", "null", "-"], where="test", hide=[plate])
    assert "someone" not in str(caught.value)
    assert "Invalid data" in str(caught.value)


def test_a_program_that_ends_early_gives_its_own_reason() -> None:
    def feed(pipe: IO[bytes]) -> None:
        while True:
            pipe.write(bytes(1 << 20))

    with pytest.raises(FarmError, match="ffmpeg ended"):
        ffmpeg.run(["-f", "rawvideo", "-i", "pipe:0", "-f", "no-such-muxer", "-"], where="test", feed=feed)


def test_when_the_feeder_fails_the_program_is_killed() -> None:
    def feed(pipe: IO[bytes]) -> None:
        pipe.write(b"YUV4MPEG2 W16 H16 F25:1 C420jpeg\n")
        pipe.flush()
        raise ValueError("the chunk is broken")

    with pytest.raises(ValueError, match="the chunk is broken"):
        ffmpeg.run(["-f", "yuv4mpegpipe", "-i", "pipe:0", "-f", "null", "-"], where="test", feed=feed)
    assert children() == []


@pytest.mark.timeout(60)
def test_a_program_that_stands_still_is_ended(tmp_path: Path) -> None:
    """It waits for an input that never comes, while more is written to it than a pipe holds."""
    silent = tmp_path / "silent"
    os.mkfifo(silent)

    def feed(pipe: IO[bytes]) -> None:
        pipe.write(bytes(1 << 22))

    inputs = ["-f", "rawvideo", "-video_size", "16x16", "-i", "pipe:0", "-f", "rawvideo", "-video_size", "16x16"]
    arguments = [*inputs, "-i", f"file:{silent}", "-f", "null", "-"]
    with pytest.raises(InfrastructureError, match="neither read nor wrote"):
        ffmpeg.run(arguments, where="test", feed=feed, stall_seconds=0.5)
    assert children() == []


def test_it_is_the_bundled_one() -> None:
    said = subprocess.run([ffmpeg.program(), "-version"], capture_output=True, check=True, timeout=30).stdout
    assert said.startswith(b"ffmpeg version")
