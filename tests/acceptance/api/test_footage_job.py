"""A clip as identity, through a real job, by the real command."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from farm.media.probe import probe
from farm.media.reader import read_plate
from farm.sample import generate
from tests.acceptance.api.conftest import FarmCommand, last_line

FRAMES = 12


def lumas(path: Path) -> list[NDArray[np.generic]]:
    return [frame.planes[0] for frame in read_plate(path, probe(path))]


def test_a_clip_serves_as_the_identity(running_farm: FarmCommand, tmp_path: Path) -> None:
    clip = generate(tmp_path, name="clip", seconds=0.75, size=(640, 360), people=1, events=False).plate
    plate = generate(
        tmp_path, name="plate", seconds=0.5, size=(640, 360), people=1, identities=("grace_hopper",), events=False
    ).plate
    out = tmp_path / "out.mkv"
    done = running_farm("render", plate, "--identity", clip, "--deliverable", "ffv1", "-o", out)
    assert done.returncode == 0, done.stderr
    before, after = lumas(plate), lumas(out)
    assert len(after) == len(before) == FRAMES
    changed = [float(np.mean(a != b)) for a, b in zip(before, after, strict=True)]
    assert min(changed) > 0.005, "the face changes in every frame"

    report = running_farm.data("identity", clip)
    assert report["frames"] > 1
    assert "lips pursed" in report["missing"]


def test_a_clip_without_a_face_is_refused_before_there_is_a_job(running_farm: FarmCommand, tmp_path: Path) -> None:
    plate = generate(tmp_path, seconds=0.5, size=(320, 180), people=1, events=False).plate
    jobs = running_farm.data("jobs")
    done = running_farm("render", plate, "--identity", plate, "-o", tmp_path / "out.mp4")
    assert done.returncode == 2
    assert "No face of 48 pixels" in last_line(done), "the face is 38 pixels large"
    assert running_farm.data("jobs") == jobs
