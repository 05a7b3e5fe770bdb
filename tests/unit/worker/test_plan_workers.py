"""What the worker program starts, with a made-up NVIDIA management library."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import pytest

from farm.settings import Settings
from farm.worker.__main__ import plan_workers
from farm.worker.devices import MIB, Card, card_codecs, find_cards
from farm.worker.plan_slots import room_mib


@dataclass
class _Memory:
    total: int
    free: int


class _Nvml:
    """Cards by memory in MiB; a card with slices shows them."""

    def __init__(self, cards: list[int], slices: dict[int, list[int]] | None = None) -> None:
        self._cards, self._slices = cards, slices or {}

    def nvmlInit(self) -> None: ...

    def nvmlShutdown(self) -> None: ...

    def nvmlDeviceGetCount(self) -> int:
        return len(self._cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Any:
        return (index, None)

    def nvmlDeviceGetUUID(self, handle: Any) -> bytes:
        card, part = handle
        return f"GPU-{card}".encode() if part is None else f"MIG-{card}-{part}".encode()

    def nvmlDeviceGetName(self, handle: Any) -> str:
        return "NVIDIA Test"

    def nvmlDeviceGetMemoryInfo(self, handle: Any) -> _Memory:
        card, part = handle
        total = (self._cards[card] if part is None else self._slices[card][part]) * MIB
        return _Memory(total, total // 2)

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: Any) -> int:
        return 7 if handle[0] in self._slices else 0

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: Any, index: int) -> Any:
        if index >= len(self._slices[handle[0]]):
            raise RuntimeError("NVMLError_NotFound")
        return (handle[0], index)


def test_every_card_and_every_slice_gets_a_worker_that_sees_it_alone() -> None:
    cards = find_cards(_Nvml([24576, 81920], {1: [20000, 20000]}))
    plans = plan_workers(Settings(worker_name="w"), cards, host="h", cores=8)
    assert [plan.id for plan in plans] == ["w-gpu0", "w-gpu1", "w-gpu2"]
    seen = [plan.environment["CUDA_VISIBLE_DEVICES"] for plan in plans]
    assert seen == ["GPU-0", "MIG-1-0", "MIG-1-1"]


@pytest.mark.parametrize("slots", [1, 3])
def test_slots_offer_what_the_card_has_room_for(slots: int) -> None:
    card = Card("GPU-0", "NVIDIA Test", 24576, 24000)
    [plan] = plan_workers(Settings(slots=slots), [card], host="h", cores=8)
    assert plan.vram_mib == room_mib(24576) // slots
    assert plan.environment["FARM_SLOT_VRAM_MIB"] == str(plan.vram_mib)
    assert plan.vram_mib * slots <= 24576 - 512


def test_a_machine_without_a_card_offers_none() -> None:
    [plan] = plan_workers(Settings(slots=2), find_cards(None), host="h", cores=8)
    assert (plan.device, plan.vram_mib, plan.environment["CUDA_VISIBLE_DEVICES"]) == ("cpu", 0, "")


def test_a_cards_encoders_are_what_its_own_process_finds() -> None:
    cards = find_cards(_Nvml([24576]))
    (worker,) = plan_workers(Settings(), cards, host="h", cores=4, codecs=lambda uuid: (f"of-{uuid}",))
    assert worker.codecs == ("of-GPU-0",)
    assert worker.environment["FARM_SLOT_CODECS"] == "of-GPU-0"
    (plain,) = plan_workers(Settings(), [], host="h", cores=4, codecs=lambda uuid: ("nvenc",))
    assert plain.codecs == ()


def test_a_probe_that_fails_gives_no_encoders() -> None:
    prints = (sys.executable, "-c", "import os; print('h264_nvenc'); print(os.environ['CUDA_VISIBLE_DEVICES'])")
    assert card_codecs("GPU-1", prints) == ("h264_nvenc", "GPU-1")
    assert card_codecs("GPU-1", (sys.executable, "-c", "raise SystemExit(1)")) == ()
