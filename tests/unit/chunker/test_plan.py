"""Chunk ranges: every frame once, sizes within bounds, scene cuts and key frames where they fall well."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farm.chunker.plan import ChunkPlanner, ChunkRange, ChunkSizes, plan_chunks
from farm.errors import InputError
from farm.media.timeline import Timeline


def timeline_of(steps: list[int], *, base: Fraction = Fraction(1, 1000), keys: tuple[int, ...] = (0,)) -> Timeline:
    """A timeline whose frames last `steps` ticks."""
    duration = np.array(steps, np.int64)
    pts = np.concatenate([[0], np.cumsum(duration)[:-1]]).astype(np.int64)
    key = np.zeros(len(steps), np.bool_)
    key[list(keys)] = True
    return Timeline(base, pts, duration, key)


def check_cover(chunks: list[ChunkRange], frames: int) -> None:
    assert [c.index for c in chunks] == list(range(len(chunks)))
    assert chunks[0].first == 0
    assert chunks[-1].last == frames
    assert all(a.last == b.first for a, b in pairwise(chunks))
    assert all(c.first < c.last for c in chunks)


@given(
    steps=st.lists(st.sampled_from([1, 5, 33, 34, 40, 1000, 45_000]), min_size=1, max_size=400),
    keys=st.sets(st.integers(0, 399), max_size=20),
    cuts=st.sets(st.integers(0, 399), max_size=20),
    target=st.sampled_from([0.1, 1.0, 4.0, 20.0]),
)
@settings(max_examples=150, deadline=None)
def test_every_frame_is_in_one_chunk_and_none_is_too_short(
    steps: list[int], keys: set[int], cuts: set[int], target: float
) -> None:
    timeline = timeline_of(steps, keys=tuple(k for k in keys if k < len(steps)))
    chunks = plan_chunks(timeline, target_seconds=target, scene_cuts=sorted(cuts))
    check_cover(chunks, len(steps))
    least = ChunkSizes.around(target).least
    if len(chunks) > 1:
        assert all(timeline.seconds(c.first, c.last) >= least - 1e-9 for c in chunks)


def test_a_film_is_cut_at_the_target() -> None:
    timeline = timeline_of([40] * 25 * 100)
    chunks = plan_chunks(timeline)
    check_cover(chunks, 2500)
    assert [len(c) for c in chunks] == [500, 500, 500, 500, 500]
    assert all(10 <= timeline.seconds(c.first, c.last) <= 30 for c in chunks)


@pytest.mark.parametrize("seconds", [31, 41, 45.3, 59.9, 61, 100.04])
def test_the_last_chunks_are_within_bounds_too(seconds: float) -> None:
    timeline = timeline_of([40] * round(seconds * 25))
    chunks = plan_chunks(timeline)
    assert all(10 <= timeline.seconds(c.first, c.last) <= 30 for c in chunks)


def test_a_short_plate_is_one_chunk() -> None:
    assert plan_chunks(timeline_of([40])) == [ChunkRange(index=0, first=0, last=1)]
    assert len(plan_chunks(timeline_of([40] * 25 * 29))) == 1


def test_a_scene_cut_within_reach_is_a_boundary_and_one_out_of_reach_is_not() -> None:
    timeline = timeline_of([40] * 25 * 60)
    chunks = plan_chunks(timeline, scene_cuts=[50, 337, 900])
    assert [c.first for c in chunks] == [0, 337, 900]


def test_of_key_frames_only_near_ones_count() -> None:
    assert plan_chunks(timeline_of([40] * 25 * 60, keys=(0, 480)))[0].last == 480
    assert plan_chunks(timeline_of([40] * 25 * 60, keys=(0, 300)))[0].last == 500


def test_a_chunk_is_known_long_before_the_plate_ends() -> None:
    planner = ChunkPlanner(Fraction(1, 25), ChunkSizes.around(2.0))
    given_at = next(frame for frame in range(1000) if list(planner.add(frame, key=False)))
    assert given_at == 100  # 3 s for the longest chunk, 1 s that may stand alone


def test_variable_rates_are_cut_by_time_not_by_count() -> None:
    timeline = timeline_of([10] * 2000 + [100] * 600)
    chunks = plan_chunks(timeline)
    assert all(10 <= timeline.seconds(c.first, c.last) <= 30 for c in chunks)
    assert len(chunks[0]) == 2000


@pytest.mark.parametrize("target", [0.0, -3.0, float("nan"), float("inf")])
def test_nonsense_sizes_are_refused(target: float) -> None:
    with pytest.raises(InputError, match="cannot last"):
        plan_chunks(timeline_of([40]), target_seconds=target)


def test_an_empty_timeline_is_refused() -> None:
    with pytest.raises(InputError, match="no frame"):
        plan_chunks(Timeline(Fraction(1, 25), np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.bool_)))
