"""Timelines, the clock, and the index from packets to frames."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from farm.errors import InputError
from farm.media.clock import BestEffort, Unroller, durations
from farm.media.decoder import Stamp
from farm.media.frameindex import FrameIndex
from farm.media.timeline import Timeline


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def timeline() -> Timeline:
    """I0 P3 B1 B2 P6 B4 B5: packets in decoding order, frames in presentation order."""
    pts = ints(0, 10, 20, 30, 40, 50, 60)
    key = np.array([True] + [False] * 6)
    return Timeline(Fraction(1, 100), pts, ints(*[10] * 7), key, ints(0, 2, 3, 1, 5, 6, 4), ints(2), ints(5), True)


def test_a_timeline_survives_being_stored() -> None:
    back = Timeline.from_bytes(timeline().to_bytes())
    for name in ("pts", "duration", "key", "packet", "concealed", "damaged"):
        np.testing.assert_array_equal(getattr(back, name), getattr(timeline(), name))
    assert (back.time_base, back.decoded, len(back)) == (Fraction(1, 100), True, 7)
    assert back.seconds(2, 7) == 0.5


def test_what_a_chunk_needs_covers_its_references_and_context() -> None:
    index = FrameIndex.of(timeline())
    want = index.want(1, 3, 0, 0)
    assert (want.begin, want.end) == (2, 3)
    want = index.want(2, 4, 1, 1)
    assert (want.low, want.high, want.begin, want.end) == (1, 5, 1, 5)
    assert index.want(4, 7, 0, 0).end is None


def test_packets_without_a_frame_belong_to_the_picture_before_them() -> None:
    fields = Timeline(Fraction(1, 50), ints(0, 2, 4), ints(2, 2, 2), np.array([True, False, False]), ints(0, 2, 4))
    assert FrameIndex.of(fields).want(0, 1, 0, 0).end == 1


def test_decoding_may_start_at_a_key_frame_that_is_shown_first() -> None:
    """Packets 0 K, 1 P, 2 K, 3 b, 4 b: both b are shown before the second K."""
    pts, packet = ints(0, 1, 2, 3, 4), ints(0, 1, 3, 4, 2)
    index = FrameIndex.of(Timeline(Fraction(1), pts, ints(*[1] * 5), np.array([True] * 5), packet))
    assert index.serves(index.want(4, 5, 0, 0), 2, 4)
    assert not index.serves(index.want(3, 5, 0, 0), 2, 4)
    assert index.serves(index.want(3, 5, 0, 0), 0, 0)


def test_a_range_outside_and_a_timeline_without_packets_are_refused() -> None:
    with pytest.raises(InputError, match="not in the timeline"):
        FrameIndex.of(timeline()).want(5, 8, 0, 0)
    bare = Timeline(Fraction(1), ints(0), ints(1), np.array([True]))
    with pytest.raises(InputError, match="which packets"):
        FrameIndex.of(bare)


def test_damage_is_found_by_packet() -> None:
    index = FrameIndex.of(timeline())
    assert index.is_damaged_within(3, 3)  # frame 2, lost
    assert index.is_damaged_within(6, None)  # frame 5, faulty
    assert not index.is_damaged_within(0, 2)
    assert index.is_known_lost(2)
    assert not index.is_known_lost(5)


def test_the_better_of_two_clocks_is_followed() -> None:
    good_pts = [Stamp(p, d, 1) for p, d in ((0, -2), (1, -1), (2, 0))]
    clock = BestEffort(good_pts)
    assert [clock.next(i, i) for i in range(3)] == [0, 1, 2]
    bad_pts = [Stamp(p, d, 1) for p, d in ((0, 0), (0, 1), (0, 2))]
    clock = BestEffort(bad_pts)
    assert [clock.next(i, i) for i in range(3)] == [0, 1, 2]
    silent = BestEffort([Stamp(None, None, 1)])
    assert silent.next(0, None) is None


def test_a_clock_that_starts_afresh_goes_on_where_it_was() -> None:
    stamps = [Stamp(p, None, 40) for p in (500, 540, 580, 0, 40)]
    unroller = Unroller(stamps)
    assert [unroller.next(s.pts) for s in stamps] == [500, 540, 580, 620, 660]


def test_a_single_repeated_or_missing_stamp_is_mended_for_that_frame_alone() -> None:
    stamps = [Stamp(p, None, 40) for p in (0, 40, 40, 120, None, 200)]
    unroller = Unroller(stamps)
    assert [unroller.next(s.pts) for s in stamps] == [0, 40, 41, 120, 160, 200]


def test_frames_stay_until_the_next_and_the_last_by_its_packet() -> None:
    assert durations(ints(0, 10, 30), 7).tolist() == [10, 20, 7]
    assert durations(ints(0, 10, 30), 0).tolist() == [10, 20, 15]
    assert durations(ints(5), 0).tolist() == [1]
