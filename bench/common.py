"""What every benchmark shares: goals, medians, the machine, and the JSON line at the end."""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent / "results"


@dataclass(frozen=True, slots=True)
class Goal:
    """One number that an issue names: `goal` in words (">= 0.62"), `ok` None where this machine cannot measure it."""

    value: float | int | None
    goal: str
    ok: bool | None
    why: str = ""

    def as_dict(self) -> dict[str, Any]:
        plain: dict[str, Any] = {"value": self.value, "goal": self.goal, "ok": self.ok}
        return {**plain, "why": self.why} if self.why else plain


def at_least(value: float, bound: float, why: str = "") -> Goal:
    return Goal(_tidy(value), f">= {bound}", bool(value >= bound), why)


def at_most(value: float, bound: float, why: str = "") -> Goal:
    return Goal(_tidy(value), f"<= {bound}", bool(value <= bound), why)


def exactly(value: int, bound: int, why: str = "") -> Goal:
    return Goal(value, f"== {bound}", value == bound, why)


def unmeasured(goal: str, why: str) -> Goal:
    return Goal(None, goal, None, why)


def noted(value: float, why: str) -> Goal:
    """A number worth keeping for which no issue sets a goal."""
    return Goal(_tidy(value), "none", None, why)


def median_seconds(work: Callable[[], object], repeats: int = 3) -> float:
    """Median wall-clock seconds of `work` over `repeats` runs."""
    taken = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def machine() -> dict[str, Any]:
    """What the numbers were measured on; no host name."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def finish(bench: str, goals: dict[str, Goal], *, results: Path = RESULTS) -> int:
    """Print the table and, last, the JSON line, kept as results/BENCH.json; the exit code is 1 if a goal was missed."""
    width = max(len(name) for name in goals)
    for name, goal in goals.items():
        word = {True: "ok", False: "MISSED", None: "-"}[goal.ok]
        value = "-" if goal.value is None else f"{goal.value:g}"
        print(f"{name:<{width}}  {value:>10}  {goal.goal:<12} {word:<6} {goal.why}".rstrip())
    ok = all(goal.ok is not False for goal in goals.values())
    line = json.dumps(
        {
            "bench": bench,
            "goals": {name: goal.as_dict() for name, goal in goals.items()},
            "ok": ok,
            "machine": machine(),
        }
    )
    results.mkdir(parents=True, exist_ok=True)
    (results / f"{bench}.json").write_text(line + "\n")
    print(line)
    return 0 if ok else 1


def _tidy(value: float) -> float:
    return round(float(value), 4)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
