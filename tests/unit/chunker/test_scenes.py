"""Scene cuts on synthetic frames."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from farm.chunker.scenes import find_scene_cuts
from farm.media.facts import ColourFacts, PlateFacts, VideoFacts
from farm.media.frame import Frame
from farm.media.planes import planar_format

FACTS = PlateFacts(
    container="nut",
    size=1,
    video=VideoFacts(
        stream_index=0,
        codec="rawvideo",
        width=64,
        height=36,
        sample_format="gbrp",
        bit_depth=8,
        time_base=Fraction(1, 25),
    ),
)


def frames(*scenes: tuple[int, int], start: int = 0) -> Iterator[Frame]:
    """`scenes` are (frames, base lightness); within one the picture drifts slowly."""
    index = start
    ramp = np.tile(np.linspace(0, 40, 64), (36, 1))
    for length, base in scenes:
        for step in range(length):
            plane = (ramp + base + step * 0.2).astype(np.uint8)
            yield Frame((plane, plane, plane), planar_format("gbrp"), ColourFacts(range="pc"), index, index)
            index += 1


def test_cuts_are_where_the_picture_changes_and_only_there() -> None:
    assert list(find_scene_cuts(frames((40, 10), (55, 150), (30, 60)), FACTS)) == [40, 95]


def test_a_drifting_picture_has_no_cut() -> None:
    assert list(find_scene_cuts(frames((200, 20)), FACTS)) == []


def test_indexes_are_the_timelines_even_when_reading_begins_later() -> None:
    assert list(find_scene_cuts(frames((20, 10), (20, 150), start=1000), FACTS)) == [1020]
