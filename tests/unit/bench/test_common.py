"""The line that a benchmark ends with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.common import at_least, at_most, exactly, finish, median_seconds, noted, unmeasured


def test_the_last_line_is_the_result_that_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    goals = {"fast": at_least(21.5, 20), "steady": at_most(1.1, 1.15), "gpu": unmeasured(">= 2", "no GPU here")}
    assert finish("demo", goals, results=tmp_path) == 0
    line = capsys.readouterr().out.splitlines()[-1]
    assert json.loads(line) == json.loads((tmp_path / "demo.json").read_text())
    result = json.loads(line)
    assert result["bench"] == "demo"
    assert result["ok"] is True
    assert result["goals"]["fast"] == {"value": 21.5, "goal": ">= 20", "ok": True}
    assert result["goals"]["gpu"] == {"value": None, "goal": ">= 2", "ok": None, "why": "no GPU here"}
    assert result["machine"]["cores"] >= 1


def test_one_missed_goal_fails_the_bench(tmp_path: Path) -> None:
    goals = {"same": exactly(1, 0), "fast": at_least(30, 20), "sharp": noted(0.4, "no goal")}
    assert finish("demo", goals, results=tmp_path) == 1
    assert json.loads((tmp_path / "demo.json").read_text())["ok"] is False


def test_a_goal_that_was_not_measured_is_no_miss(tmp_path: Path) -> None:
    assert finish("demo", {"gpu": unmeasured(">= 2", "no GPU here")}, results=tmp_path) == 0


def test_the_median_is_of_all_runs() -> None:
    runs: list[int] = []
    assert median_seconds(lambda: runs.append(1), repeats=5) >= 0
    assert len(runs) == 5
