"""Fewer slots while a card is too hot, with locks in a folder and a clock that is turned by hand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from farm.worker.keeper import Keeper
from farm.worker.seats import COOL_SECONDS, HOT_SECONDS, Heat, Seats
from farm.worker.telemetry import Reading


class _Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def _reading(throttled: float | None, uuid: str = "GPU-0") -> Reading:
    return Reading(uuid, *(None,) * 9, throttled)


def test_each_process_has_a_seat_of_its_own_and_a_dead_one_s_is_free_again(tmp_path: Path) -> None:
    seats = Seats(tmp_path)
    assert seats.take() == 0
    code = (
        f"from pathlib import Path; from farm.worker.seats import Seats; print(Seats(Path({str(tmp_path)!r})).take())"
    )
    for _ in range(2):
        told = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
        assert told.stdout.strip() == "1"


def test_a_seat_beyond_the_allowed_ones_rests(tmp_path: Path) -> None:
    first, second = Seats(tmp_path), Seats(tmp_path)
    assert (first.take(), second.take()) == (0, 1)
    assert second.may_work()
    first.allow(1)
    assert first.may_work()
    assert not second.may_work()
    first.allow(2)
    assert second.may_work()


def test_heat_takes_slots_one_by_one_and_gives_them_back_slowly() -> None:
    clock = _Clock()
    heat = Heat(3, clock)
    seen = []
    for _ in range(5):
        clock.now += HOT_SECONDS
        seen.append(heat.see(_reading(1.0)))
    assert seen == [3, 2, 1, 1, 1]
    assert heat.see(None) == 1
    clock.now += COOL_SECONDS / 2
    assert heat.see(_reading(0.0)) == 1
    seen = []
    for _ in range(4):
        clock.now += COOL_SECONDS
        seen.append(heat.see(_reading(0.0)))
    assert seen == [2, 3, 3, 3]


def test_the_keeper_tells_slots_and_prometheus(tmp_path: Path) -> None:
    clock, hot = _Clock(), [1.0]
    keeper = Keeper({"w-gpu0": ("GPU-0", 2)}, tmp_path, lambda: [_reading(hot[0])], clock=clock)
    assert Seats(tmp_path / "w-gpu0").allowed() == 2
    for _ in range(2):
        keeper.tend()
        clock.now += HOT_SECONDS
    keeper.tend()
    assert Seats(tmp_path / "w-gpu0").allowed() == 1
    [gauge] = keeper.collect()
    assert [(sample.labels, sample.value) for sample in gauge.samples] == [({"worker": "w-gpu0"}, 1)]
