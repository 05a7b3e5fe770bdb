"""A slot that lost its card."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import farm.worker.slot as slot_module
from farm.errors import ErrorClass, FarmError, InfrastructureError, OutOfMemoryError
from farm.inference.bound import PoisonedContextError
from farm.store.memory import MemoryStore
from farm.worker.attempt_log import AttemptLogs
from farm.worker.scratch import Scratch
from farm.worker.slot import EXIT_POISONED, EXIT_RECYCLED, Slot


class _Control:
    """Has one task, and keeps what is reported."""

    def __init__(self) -> None:
        self.failed: list[ErrorClass] = []
        self.causes: list[str] = []
        lease = SimpleNamespace(job_id="j", task_id="t", attempt_id="a", heartbeat_seconds=60)
        self._claims: list[Any] = [SimpleNamespace(lease=lease, kind="render", position=0, number=1)]

    def claim(self, _: Any) -> Any:
        return self._claims.pop() if self._claims else None

    def heartbeat(self, *_: Any, **__: Any) -> Any:
        return SimpleNamespace(alive=True, reason="")

    def finish(self, *_: Any) -> None:
        raise AssertionError("A task that broke was called finished.")

    def fail(self, _: Any, error_class: ErrorClass, __: str, *, cause: str) -> None:
        self.failed.append(error_class)
        self.causes.append(cause)


def _run(error: FarmError, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[list[ErrorClass], list[int]]:
    def broken(_: Any) -> Any:
        raise error

    monkeypatch.setattr(slot_module, "run_task", broken)
    control: Any = _Control()
    nothing: Any = SimpleNamespace(drain_seconds=0, recycle_tasks=0)
    exits: list[int] = []
    logs = AttemptLogs(folder / "logs", MemoryStore())
    Slot(
        *(nothing, control, nothing, Scratch(folder), nothing, nothing, logs),
        draining=lambda: False,
        exit_process=exits.append,
    ).work()
    assert control.causes[0].startswith(type(error).__name__)
    return control.failed, exits


def test_a_process_that_lost_the_card_hands_its_task_back_and_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed, exits = _run(PoisonedContextError("The card's context is lost."), tmp_path, monkeypatch)
    assert failed == [ErrorClass.INFRASTRUCTURE]
    assert exits == [EXIT_POISONED]


@pytest.mark.parametrize("error", [OutOfMemoryError("full"), InfrastructureError("the store is away")])
def test_other_errors_leave_the_process_alone(
    error: FarmError, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed, exits = _run(error, tmp_path, monkeypatch)
    assert failed == [error.error_class]
    assert exits == []


class _Farm(_Control):
    """Keeps which slot each result asks the next task for, and whether that was handed back."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Any] = []
        self.handed_back = 0

    def finish(self, *told: Any) -> None:
        self.asked.append(told[2])

    def hand_back(self) -> None:
        self.handed_back += 1


@pytest.mark.parametrize("leaves", [False, True])
def test_a_result_asks_for_the_next_task_unless_the_worker_leaves(
    leaves: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drains: list[bool] = []

    def rendered(_: Any) -> str:
        drains.append(leaves)
        return "result"

    monkeypatch.setattr(slot_module, "run_task", rendered)
    control: Any = _Farm()
    nothing: Any = SimpleNamespace(drain_seconds=0, recycle_tasks=0)
    offer: Any = object()
    logs = AttemptLogs(tmp_path / "logs", MemoryStore())
    parts = (offer, control, nothing, Scratch(tmp_path), nothing, nothing, logs)
    slot = Slot(*parts, draining=lambda: drains == [True])
    slot.work()
    assert control.asked == [None if leaves else offer]
    assert control.handed_back == int(leaves)


class _Plenty(_Control):
    """Always has another task."""

    def __init__(self) -> None:
        super().__init__()
        self.offers: list[Any] = []
        self.handed_back = 0

    def claim(self, _: Any) -> Any:
        return self._claims[0]

    def finish(self, _: Any, __: Any, offer: Any) -> None:  # type: ignore[override]
        self.offers.append(offer)

    def hand_back(self) -> None:
        self.handed_back += 1


def _plenty(folder: Path, monkeypatch: pytest.MonkeyPatch, recycle: int, may_work: Any) -> tuple[_Plenty, list[int]]:
    monkeypatch.setattr(slot_module, "run_task", lambda _: "done")
    control: Any = _Plenty()
    nothing: Any = SimpleNamespace(drain_seconds=0, recycle_tasks=recycle, close=lambda: None)
    exits: list[int] = []
    logs = AttemptLogs(folder / "logs", MemoryStore())
    Slot(
        *("an offer", control, nothing, Scratch(folder), nothing, nothing, logs),  # type: ignore[arg-type]
        draining=lambda: False,
        may_work=may_work,
        exit_process=exits.append,
    ).work()
    return control, exits


def test_a_process_is_replaced_after_its_tasks_and_claims_nothing_that_it_will_not_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    control, exits = _plenty(tmp_path, monkeypatch, 3, lambda: True)
    assert exits == [EXIT_RECYCLED]
    assert control.offers == ["an offer", "an offer", None]
    assert control.handed_back == 1


def test_a_slot_that_its_card_does_not_carry_any_more_takes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = iter([True, True, False, False, False])
    control, exits = _plenty(tmp_path, monkeypatch, 0, lambda: next(left))
    assert exits == []
    assert control.offers == ["an offer"]
    assert control.handed_back == 1
