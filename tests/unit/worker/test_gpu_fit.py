"""Shrinking until a recipe fits, with a card that is only a number."""

from __future__ import annotations

from pathlib import Path

import pytest

from farm.errors import OutOfMemoryError, RecipeError
from farm.worker.devices import Card
from farm.worker.gpu_fit import fitted
from farm.worker.plan_slots import Footprint, PlanBook

CARD = Card("GPU-1", "NVIDIA Test", 8192, 8000)
FOOTPRINT = Footprint(1000, 100)


class _Maker:
    """Fits up to a batch of `most`."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.asked: list[int] = []

    def __call__(self, batch: int) -> str:
        self.asked.append(batch)
        if batch > self.most:
            raise OutOfMemoryError("full")
        return f"batch {batch}"


def test_the_batch_is_halved_until_it_fits_and_remembered(tmp_path: Path) -> None:
    book = PlanBook(tmp_path / "plans.json")
    maker = _Maker(most=10)
    made, plan = fitted(maker, CARD, "recipe", FOOTPRINT, book)
    assert (made, plan.batch, maker.asked) == ("batch 8", 8, [32, 16, 8])
    again = _Maker(most=10)
    fitted(again, CARD, "recipe", FOOTPRINT, PlanBook(tmp_path / "plans.json"))
    assert again.asked == [8]


def test_what_fits_at_once_is_left_as_planned(tmp_path: Path) -> None:
    maker = _Maker(most=32)
    _, plan = fitted(maker, CARD, "recipe", FOOTPRINT, PlanBook(tmp_path / "plans.json"))
    assert (plan.batch, maker.asked) == (32, [32])


def test_what_never_fits_is_said(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="more memory"):
        fitted(_Maker(most=0), CARD, "recipe", FOOTPRINT, PlanBook(tmp_path / "plans.json"))
    with pytest.raises(RecipeError, match="needs more than"):
        fitted(_Maker(most=32), Card("GPU-2", "Tiny", 512, 512), "recipe", FOOTPRINT, PlanBook(tmp_path / "p.json"))


def test_other_errors_are_no_reason_to_shrink(tmp_path: Path) -> None:
    def broken(_: int) -> str:
        raise RecipeError("no such model")

    with pytest.raises(RecipeError, match="no such model"):
        fitted(broken, CARD, "recipe", FOOTPRINT, PlanBook(tmp_path / "plans.json"))
