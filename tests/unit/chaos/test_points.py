"""The faults of the chaos harness happen where, when and as often as they were armed."""

from __future__ import annotations

import os
from pathlib import Path

from tests.chaos.points import Fault, Points, Rate


def test_an_armed_point_is_met_once(tmp_path: Path) -> None:
    acts: list[str] = []
    points = Points(tmp_path, act=acts.append)
    points.reach("mid-frame")
    assert acts == []
    points.arm("mid-frame", Fault("kill"))
    assert points.met("mid-frame") is None
    points.reach("after-claim")
    points.reach("mid-frame")
    points.reach("mid-frame")
    assert acts == ["kill"]
    assert points.met("mid-frame") == os.getpid()
    points.disarm()
    assert points.met("mid-frame") is None


def test_a_fault_may_wait_for_the_third_time(tmp_path: Path) -> None:
    acts: list[str] = []
    points = Points(tmp_path, act=acts.append)
    points.arm("mid-frame", Fault("exit", skip=2))
    points.reach("mid-frame")
    points.reach("mid-frame")
    assert acts == []
    assert points.met("mid-frame") is None
    points.reach("mid-frame")
    assert acts == ["exit"]


def test_a_rate_may_hurt_one_kind_of_call_in_one_way(tmp_path: Path) -> None:
    points = Points(tmp_path)
    points.set_rate("store", Rate(0.5, seed=1, only="after", calls="head"))
    assert {points.throw("store", "list") for _ in range(50)} == {""}
    assert {points.throw("store", "head") for _ in range(50)} == {"", "after"}


def test_a_wrong_clock_is_told_to_its_role_until_it_is_right_again(tmp_path: Path) -> None:
    points = Points(tmp_path)
    points.set_clock("worker", "+1h")
    assert (points.clock("worker"), points.clock("api")) == ("+1h", "")
    points.set_clock("worker", "")
    assert points.clock("worker") == ""


def test_a_rate_gives_the_same_faults_for_the_same_seed(tmp_path: Path) -> None:
    points = Points(tmp_path)
    assert points.throw("store") == ""
    points.set_rate("store", Rate(0.25, seed=1))
    first = [points.throw("store") for _ in range(200)]
    again = Points(tmp_path)
    assert [again.throw("store") for _ in range(200)] == first
    assert set(first) == {"before", "after", ""}
    points.set_rate("store", None)
    assert points.throw("store") == ""
