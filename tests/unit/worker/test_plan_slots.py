"""Slots by memory, without a card."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from farm.errors import InputError
from farm.worker.devices import Card
from farm.worker.plan_slots import Footprint, PlanBook, SlotPlan, least_mib, plan_slots, room_mib, shrunk
from farm.worker.plan_table import FOOTPRINTS, plan_table

SMALL = Footprint(1000, 100)
CARD = Card("GPU-1", "NVIDIA Test", 8192, 8000)


@pytest.mark.parametrize(
    ("total", "useful", "slots", "batch"),
    [(8192, 1, 1, 32), (8192, 4, 1, 32), (16384, 4, 3, 32), (4096, 4, 1, 16), (2000, 4, 1, 4), (1800, 4, 0, 0)],
)
def test_the_largest_batch_comes_first_and_then_slots(total: int, useful: int, slots: int, batch: int) -> None:
    plan = plan_slots(total, SMALL, useful=useful)
    assert (plan.slots, plan.batch) == (slots, batch)
    assert plan.fits == (slots > 0)
    if plan.fits:
        assert plan.slots * plan.slot_mib <= room_mib(total)
    assert plan.why


def test_an_operator_may_ask_for_fewer() -> None:
    assert plan_slots(80_000, SMALL, useful=8, most=2).slots == 2


def test_a_reserve_stays_free_on_small_and_large_cards() -> None:
    assert room_mib(8192) == 8192 - 512
    assert room_mib(100_000) == 95_000
    assert room_mib(100) == 0


def test_memory_running_out_halves_the_batch_and_then_takes_slots_until_nothing_fits() -> None:
    plan = SlotPlan(2, 16, SMALL.at(16), "")
    seen = []
    while plan.fits:
        plan = shrunk(plan, SMALL)
        seen.append((plan.slots, plan.batch))
    assert seen == [(2, 8), (2, 4), (1, 4), (0, 4)]


def test_two_measurements_make_a_footprint() -> None:
    told = Footprint.through((16, 3769), (32, 6098), "a card")
    assert told.at(32) >= 6098
    assert told.at(32) - 6098 < 32
    with pytest.raises(InputError, match="Measure two batch sizes"):
        Footprint.through((32, 6098), (16, 3769))


def test_plans_are_remembered_by_card_and_recipe(tmp_path: Path) -> None:
    book = PlanBook(tmp_path / "sub" / "plans.json")
    assert book.get(CARD, "r1") is None
    plan = SlotPlan(1, 8, 900, "memory ran out with twice the batch")
    book.put(CARD, "r1", plan)
    book.put(CARD, "r2", SlotPlan(2, 32, 900, ""))
    again = PlanBook(tmp_path / "sub" / "plans.json")
    assert again.get(CARD, "r1") == plan
    assert again.get(Card("GPU-2", "NVIDIA Test", 8192, 100), "r1") == plan
    assert again.get(Card("GPU-1", "NVIDIA Test", 16384, 100), "r1") is None


def test_a_spoilt_book_is_an_empty_one(tmp_path: Path) -> None:
    path = tmp_path / "plans.json"
    for text in ("{", "[]", '{"a": {"slots": 1}}'):
        path.write_text(text)
        assert PlanBook(path).get(CARD, "r1") is None
    PlanBook(path).put(CARD, "r1", SlotPlan(1, 1, 1, ""))
    assert PlanBook(path).get(CARD, "r1") is not None


def test_the_table_has_a_row_for_every_card_and_network() -> None:
    table = plan_table([CARD, Card("GPU-2", "NVIDIA Tiny", 1024, 1024)])
    assert table.row_count == 2 * len(FOOTPRINTS)
    console = Console(width=160, record=True, file=StringIO())
    console.print(table)
    text = console.export_text()
    assert "NVIDIA Tiny" in text
    assert "needs more than" in text


def test_what_a_recipe_needs_at_least_is_worked_out_from_what_was_seen() -> None:
    seen = SlotPlan(1, 32, 0, "", measured_mib=4000)
    assert least_mib(CARD, seen, SMALL) == 1000 + 3000 * 4 // 32
    assert least_mib(CARD, SlotPlan(1, 4, 0, "", measured_mib=4000), SMALL) == 4000
    assert least_mib(CARD, SlotPlan(1, 32, 0, "", measured_mib=800), SMALL) == 800
    assert least_mib(CARD, SlotPlan(0, 4, 0, ""), SMALL) == room_mib(CARD.total_mib) + 1


def test_the_farm_is_told_what_was_seen_and_what_does_not_fit_on_this_model_of_card(tmp_path: Path) -> None:
    book = PlanBook(tmp_path / "plans.json")
    book.put(CARD, "computed", SlotPlan(1, 32, 5000, ""))
    book.put(CARD, "seen", SlotPlan(1, 16, 5000, "", measured_mib=4000))
    book.put(CARD, "too-large", SlotPlan(0, 4, 0, ""))
    book.put(Card("GPU-2", "Another", 8192, 8000), "elsewhere", SlotPlan(1, 16, 0, "", measured_mib=1))
    told = {line.recipe: line for line in book.needs(CARD)}
    assert set(told) == {"seen", "too-large"}
    assert (told["seen"].card, told["seen"].seen_mb, told["seen"].batch) == ("NVIDIA Test/8192", 4000, 16)
    assert told["too-large"].needs_mb > room_mib(CARD.total_mib)


def test_slots_that_write_at_the_same_time_lose_nothing_of_each_other(tmp_path: Path) -> None:
    start, count = threading.Barrier(4), 25

    def write(slot: int) -> None:
        book = PlanBook(tmp_path / "plans.json")
        start.wait()
        for number in range(count):
            book.put(CARD, f"{slot}-{number}", SlotPlan(1, 16, 5000, ""))

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(write, slot) for slot in range(4)]:
            done.result()
    assert len(PlanBook(tmp_path / "plans.json").of(CARD)) == 4 * count


def test_only_one_slot_measures(tmp_path: Path) -> None:
    book, other = PlanBook(tmp_path / "plans.json"), PlanBook(tmp_path / "plans.json")
    entered = threading.Event()

    def wait_for_it() -> None:
        with other.measuring():
            entered.set()

    with book.measuring():
        waiting = threading.Thread(target=wait_for_it)
        waiting.start()
        book.put(CARD, "r", SlotPlan(1, 16, 5000, ""))  # writing is something else
        assert not entered.is_set()
    waiting.join(5)
    assert entered.is_set()
