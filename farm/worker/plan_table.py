"""`python -m farm.worker --plan`: what each card of this machine would carry, as a table; nothing is started."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from farm.worker.devices import Card
from farm.worker.plan_slots import MOST_USEFUL, Footprint, plan_slots

_H200 = "NVIDIA H200, 1080p, four and six slots under MPS, ONNX Runtime 1.31 CUDA provider"

FOOTPRINTS = {
    "inswapper-like 128 px, latent 16": Footprint(1440, 264, _H200),
    "inswapper-like 128 px, latent 32": Footprint(1440, 354, _H200),
    "SimSwap-like 256 px": Footprint(1440, 345, _H200),
}
"""The slope goes through a slot's share of the most seen at a batch of 32, after chunks; the base comes from batches of
16 and 32 of an earlier version."""


def plan_table(cards: Sequence[Card], *, most: int | None = None) -> Table:
    """One row a card and network."""
    table = Table("card", "memory MiB", "network", "batch", "slots", "MiB a slot", "why", title="GPU slots")
    for card in cards:
        for name, footprint in FOOTPRINTS.items():
            plan = plan_slots(card.total_mib, footprint, useful=MOST_USEFUL, most=most)
            numbers = (str(plan.batch or "-"), str(plan.slots), str(plan.slot_mib))
            table.add_row(card.name, str(card.total_mib), name, *numbers, plan.why)
    return table
