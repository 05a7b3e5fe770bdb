"""Open a recipe on a card with the largest batch that its memory really holds, and remember it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import structlog

from farm.errors import OutOfMemoryError, RecipeError
from farm.worker.devices import Card
from farm.worker.plan_slots import Footprint, PlanBook, SlotPlan, plan_slots, shrunk

log = structlog.get_logger(__name__)
T = TypeVar("T")


def fitted(
    make: Callable[[int], T], card: Card, recipe: str, footprint: Footprint, book: PlanBook
) -> tuple[T, SlotPlan]:
    """`make(batch)` with the remembered or planned batch, halved for as long as memory runs out.

    recipe: its digest. Other sizes of slot number are for the program that starts slots; the plan in `book` tells it.
    Raises RecipeError where a batch of one does not fit.
    """
    plan = book.get(card, recipe) or plan_slots(card.total_mib, footprint)
    while plan.fits:
        try:
            made = make(plan.batch)
        except OutOfMemoryError:
            plan = shrunk(plan, footprint)
            book.put(card, recipe, plan)
            log.warning("the card's memory ran out; trying with less", batch=plan.batch, slots=plan.slots)
            continue
        book.put(card, recipe, plan)
        return made, plan
    raise RecipeError(
        f"It does not fit on this card: {plan.why}.",
        where=f"{card.name} with {card.total_mib} MiB",
        do="Use a card with more memory, or a smaller network.",
    )
