"""Damaged files end in frames or a clear error: no crash, no hang, no leak.

The short run is part of every test run; the long one (2,000 cases and more) is `make fuzz`.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.media_factory import MediaFactory

CORPUS = (
    *("h264_closed.mp4", "h264_open.mkv", "h264.ts", "h264_fragmented.mp4", "hevc_open.mp4", "vp9_hidden.webm"),
    *("av1.mp4", "mpeg2.mpg", "mpeg4_bframes.avi", "prores.mov", "ffv1.mkv", "mjpeg.avi", "animated.gif"),
    *("animated.apng", "theora.ogv", "wmv2.asf", "dnxhr.mxf", "raw.nut", "h264_edited.mp4", "qtrle.mov"),
    *("animated.webp", "alpha.webp", "edit_swapped.mp4", "edit_fast.mp4", "ordered_chapters.mkv"),
)
MAX_RSS_KIB = 1_500_000


def fuzz(media: MediaFactory, tmp_path: Path, *, seed: int, seconds: float, cases: int) -> Counter[str]:
    corpus, scratch = tmp_path / "corpus", tmp_path / "scratch"
    corpus.mkdir()
    scratch.mkdir()
    for name in CORPUS:
        (corpus / name).symlink_to(media.make(name))
    arguments = [str(corpus), str(scratch), str(seed), str(seconds), str(cases)]
    command = [sys.executable, "-W", "error", "-m", "tests.integration.media.fuzz_worker", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 120, check=False)
    lines = done.stdout.splitlines()
    begun = [line for line in lines if line.startswith("case ")]
    assert done.returncode == 0, f"{begun[-1:]} ended the process ({done.returncode}): {done.stderr[-1500:]}"
    rss = int(lines[-1].split()[1])
    assert rss < MAX_RSS_KIB, f"{rss} KiB after {len(begun)} cases"
    ends = [line for line in lines if line.startswith("end ")]
    assert len(ends) == len(begun)
    return Counter(" ".join(line.split()[1:2]) for line in ends)


def test_damaged_files_end_in_frames_or_a_clear_error(media: MediaFactory, tmp_path: Path) -> None:
    ends = fuzz(media, tmp_path, seed=1, seconds=15, cases=400)
    assert set(ends) == {"read", "refused"}


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(10, 15))
def test_many_damaged_files(media: MediaFactory, tmp_path: Path, seed: int) -> None:
    """`make fuzz`: 5 × 500 cases."""
    ends = fuzz(media, tmp_path, seed=seed, seconds=900, cases=500)
    assert ends.total() == 500
