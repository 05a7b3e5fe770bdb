"""The choreography keeps its promises."""

from __future__ import annotations

import numpy as np

from farm.sample.motion import Part


def _moments(part: Part) -> list:
    return [part.at(n / 24) for n in range(24 * 24)]


def test_heads_turn_both_ways_nod_roll_blink_and_speak() -> None:
    for place in (0, 1):
        moments = _moments(Part(place, 24, 7))
        yaw, pitch, roll = (np.array([getattr(m, name) for m in moments]) for name in ("yaw", "pitch", "roll"))
        assert yaw.min() < -25
        assert yaw.max() > 25
        # the relief is made for turns of less than 33 degrees in all
        assert np.degrees(np.arccos(np.cos(np.radians(yaw)) * np.cos(np.radians(pitch)))).max() < 31
        assert np.ptp(pitch) > 12
        assert np.ptp(roll) > 12
        lids = np.array([m.expression.lid_left for m in moments])
        assert np.sum((lids[1:] > 0) & (lids[:-1] == 0)) >= 5
        assert lids.max() == 1
        assert max(m.expression.jaw for m in moments) > 0.5


def test_people_change_places_and_the_first_leaves_and_returns() -> None:
    first, second = (_moments(Part(place, 24, 7)) for place in (0, 1))
    ahead = [a.x < b.x for a, b in zip(first, second, strict=True)]
    assert ahead[0]
    assert not ahead[24 * 11]
    assert all(a.nearness > b.nearness for a, b in zip(first, second, strict=True))
    out = [a.x > 1.2 for a in first]
    assert any(out)
    assert not out[0]
    assert not out[-1]


def test_two_seeds_blink_differently_and_one_seed_alike() -> None:
    lids = [[m.expression.lid_left for m in _moments(Part(0, 24, seed))] for seed in (7, 7, 8)]
    assert lids[0] == lids[1]
    assert lids[0] != lids[2]


def test_a_still_head_does_not_move() -> None:
    assert len(set(_moments(Part(0, 24, 7, events=False, still=True)))) == 1
