"""What a chunk is told of the timeline while the plate is still being scanned is what the whole timeline says."""

from pathlib import Path

import numpy as np
import pytest

from farm.chunker.cut import PlateCutter
from farm.errors import InterruptedTaskError
from farm.media.frameindex import FrameIndex
from farm.media.lossless import lossless_segments
from farm.media.probe import probe
from farm.media.scan import scan_timeline
from farm.sample import generate


def test_a_part_is_the_same_part_of_the_whole(tmp_path: Path) -> None:
    plate = generate(tmp_path, seconds=2, size=(128, 96), people=1, vfr=True).plate
    cutter = PlateCutter(plate, probe(plate), tmp_path, target_seconds=0.5)
    early = {}
    for chunk in cutter.run():
        high = min(cutter.known, chunk.range.last + 1)
        early[chunk.range.first, high] = cutter.part(chunk.range.first, high)
    whole = cutter.timeline()
    assert len(early) > 1
    for (low, high), part in early.items():
        wanted = whole.part(low, high)
        for name in ("pts", "key", "packet"):
            assert np.array_equal(getattr(part, name), getattr(wanted, name))
        assert part.duration[:-1].tolist() == wanted.duration[:-1].tolist()


@pytest.mark.parametrize("by_decoding", [False, True])
def test_planning_says_how_far_it_is_and_can_be_ended(tmp_path: Path, by_decoding: bool) -> None:
    """A long plate that has to be decoded gives no chunk for a long time: it must not look stuck, and obey."""
    plate = generate(tmp_path / "plate", seconds=2, size=(128, 96), people=1).plate
    folder = tmp_path / "segments"
    folder.mkdir()
    told: list[int] = []

    def watch(frames: int) -> None:
        told.append(frames)
        if frames == 20:
            raise InterruptedTaskError("The job is cancelled.")

    coded: list[int] = []
    cutter = PlateCutter(plate, probe(plate), folder, by_decoding=by_decoding, watch=watch, coding=coded.append)
    with pytest.raises(InterruptedTaskError):
        next(cutter.run())
    assert told == list(range(1, 21))
    assert not coded
    assert not list(folder.iterdir())


def test_coding_anew_says_how_far_it_is(tmp_path: Path) -> None:
    plate = generate(tmp_path / "plate", seconds=1, size=(128, 96), people=1).plate
    facts = probe(plate)
    index, told = FrameIndex.of(scan_timeline(plate, facts)), list[int]()
    wants = iter([index.want(0, 10, 0, 0), index.want(10, 20, 0, 0)])
    folder = tmp_path / "segments"
    folder.mkdir()

    segments = list(lossless_segments(plate, facts, index, wants, folder, told.append))

    assert len(segments) == 2
    assert told == list(range(20))
