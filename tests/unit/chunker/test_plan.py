from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farm.chunker.plan import SHORTEST_SECONDS, plan_chunks
from farm.errors import InputError
from farm.media.timeline import Timeline


def timeline(durations: list[int], base: Fraction = Fraction(1, 1000), start: int = 0) -> Timeline:
    length = np.array(durations, np.int64)
    pts = start + np.cumsum(length) - length
    return Timeline(base, pts, length, np.zeros(len(length), bool))


def cfr(seconds: int, fps: int = 24) -> Timeline:
    return timeline([1] * seconds * fps, Fraction(1, fps))


def test_a_plate_is_cut_into_equal_chunks() -> None:
    chunks = plan_chunks(cfr(60), target_seconds=20)
    assert [(c.index, c.first, c.last) for c in chunks] == [(0, 0, 480), (1, 480, 960), (2, 960, 1440)]


def test_a_short_plate_is_one_chunk() -> None:
    assert len(plan_chunks(cfr(9), target_seconds=20)) == 1
    assert len(plan_chunks(timeline([40]), target_seconds=20)) == 1


def test_a_remainder_is_shared_out_instead_of_left_as_a_stump() -> None:
    chunks = plan_chunks(cfr(41), target_seconds=20)
    assert [c.last - c.first for c in chunks] == [492, 492]


def test_a_boundary_moves_to_the_scene_cut_near_by() -> None:
    chunks = plan_chunks(cfr(60), target_seconds=20, scene_cuts=[470, 1000])
    assert [c.first for c in chunks] == [0, 470, 1000]


def test_a_far_scene_cut_moves_nothing() -> None:
    chunks = plan_chunks(cfr(60), target_seconds=20, scene_cuts=[24, 1400])
    assert [c.first for c in chunks] == [0, 480, 960]


def test_small_targets_serve_tests_and_are_obeyed() -> None:
    assert len(plan_chunks(cfr(6), target_seconds=0.5)) == 12


@pytest.mark.parametrize("seconds", [0, -1])
def test_a_target_must_be_positive(seconds: float) -> None:
    with pytest.raises(InputError, match="some time"):
        plan_chunks(cfr(6), target_seconds=seconds)


def test_an_empty_timeline_is_refused() -> None:
    with pytest.raises(InputError, match="no frames"):
        plan_chunks(timeline([]), target_seconds=10)


@settings(max_examples=60, deadline=None)
@given(
    durations=st.lists(st.integers(1, 4000), min_size=1, max_size=400),
    target=st.floats(0.1, 40),
    cuts=st.lists(st.integers(-5, 500), max_size=20),
    start=st.integers(-(10**9), 10**12),
)
def test_chunks_cover_every_frame_once_and_none_is_too_short(
    durations: list[int], target: float, cuts: list[int], start: int
) -> None:
    line = timeline(durations, start=start)
    chunks = plan_chunks(line, target_seconds=target, scene_cuts=cuts)
    assert chunks[0].first == 0
    assert chunks[-1].last == len(line)
    assert all(a.last == b.first for a, b in pairwise(chunks))
    assert [c.index for c in chunks] == list(range(len(chunks)))
    longest_frame = max(durations) / 1000
    total = line.seconds(0, len(line))
    for chunk in chunks:
        assert chunk.last > chunk.first
        if target >= SHORTEST_SECONDS and total >= SHORTEST_SECONDS:
            assert line.seconds(chunk.first, chunk.last) > SHORTEST_SECONDS - longest_frame - 1e-6
