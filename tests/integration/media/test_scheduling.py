"""What encoders do to the process that opens them."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

import pytest

from farm.media.deliverables import deliverable
from farm.media.encoders import chunk_encoder
from farm.media.probe import probe
from farm.media.reader import read_plate
from farm.media.scan import scan_timeline
from farm.media.scheduling import real_time_threads
from farm.media.writer import ChunkWriter
from farm.sample import generate

FRAMES = 6


def real_time_at_work(clip: Path, name: str) -> list[int]:
    """How many threads are real-time: at first, after encoders were proved, as a chunk is written, at the end."""
    seen = [len(real_time_threads())]
    facts = probe(clip)
    timeline = scan_timeline(clip, facts)
    plan = chunk_encoder(deliverable(name), facts, hardware=False)
    seen.append(len(real_time_threads()))
    with ChunkWriter(clip.with_suffix(plan.chunk_suffix), plan, facts, timeline, 0, FRAMES) as writer:
        for frame in read_plate(clip, facts, timeline):
            if frame.index < FRAMES:
                writer.write(frame)
                seen.append(len(real_time_threads()))
        writer.close()
    return [*seen, len(real_time_threads())]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make a thread real-time, and an encoder does")
@pytest.mark.parametrize("name", ["av1", "hevc10", "h264"])
def test_no_encoder_makes_a_thread_real_time(name: str, tmp_path: Path) -> None:
    """In a process of its own: an encoder's library tries it once, with the thread that comes first."""
    clip = generate(tmp_path, seconds=0.5, size=(320, 180)).plate
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert set(pool.apply(real_time_at_work, (clip, name))) == {0}
