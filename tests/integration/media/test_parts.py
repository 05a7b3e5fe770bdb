"""What a chunk is told of the timeline while the plate is still being scanned is what the whole timeline says."""

from pathlib import Path

import numpy as np

from farm.chunker.cut import PlateCutter
from farm.media.probe import probe
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
