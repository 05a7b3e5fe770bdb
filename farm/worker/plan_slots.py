"""How many slots a card carries and with which batch, by memory; smaller after each time memory ran out; remembered."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from farm.errors import InputError
from farm.worker.devices import Card

BATCHES = (32, 16, 8, 4)
"""A batch is a whole multiple of the looker's cadence."""
PLANS = "gpu-plans.json"
"""The book's file in the home."""
MOST_USEFUL = 6
"""Measured on an H200: six slots keep it busy all the time, and make a fifth more than four."""
CORES_A_SLOT = 4
"""A slot's encoders keep about four cores busy; all else of it takes half of one."""
RESERVE_MIB = 512
RESERVE_SHARE = 0.05
"""What is left free: for the display, the driver, and pictures that are larger than the measured ones."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """Device memory of one slot, MiB: `base` for context and weights, `each` for every frame of the batch.

    measured: on which card; "" where it was computed from the sizes of weights and buffers.
    """

    base: int
    each: int
    measured: str = ""

    def at(self, batch: int) -> int:
        return self.base + self.each * batch

    @classmethod
    def through(cls, small: tuple[int, int], large: tuple[int, int], measured: str = "") -> Footprint:
        """From two measurements (batch, MiB) of the same slot; InputError where they say nothing."""
        if small[0] >= large[0] or small[1] > large[1] or small[0] < 1:
            raise InputError(
                f"Two measurements {small} and {large} do not make a line.",
                where="slot plan",
                do="Measure two batch sizes, the smaller one first, on a card that nobody else uses.",
            )
        each = -(-(large[1] - small[1]) // (large[0] - small[0]))
        return cls(max(0, small[1] - each * small[0]), each, measured)


GUESS = Footprint(1440, 354)
"""Of a recipe that nobody measured yet: the largest that was measured (`plan_table.FOOTPRINTS`)."""


@dataclass(frozen=True, slots=True)
class SlotPlan:
    """`slots` 0 means that the recipe does not fit; `why` says what decided.

    slot_mib: computed. measured_mib: the most that a slot was seen to use, 0 where nobody looked.
    """

    slots: int
    batch: int
    slot_mib: int
    why: str
    measured_mib: int = 0

    @property
    def fits(self) -> bool:
        return self.slots > 0


def plan_slots(
    total_mib: int, footprint: Footprint, *, useful: int = 1, batches: Sequence[int] = BATCHES, most: int | None = None
) -> SlotPlan:
    """The largest batch that fits once, then as many slots as fit and help.

    useful: slots beyond which the card is busy anyway. most: an operator's limit.
    """
    room = room_mib(total_mib)
    wanted = useful if most is None else min(useful, most)
    for batch in sorted(batches, reverse=True):
        need = footprint.at(batch)
        if need <= room:
            slots = max(1, min(wanted, room // need))
            why = "all that help" if slots >= wanted else f"{room} MiB hold no more"
            return SlotPlan(slots, batch, need, why)
    return SlotPlan(0, 0, footprint.at(min(batches)), f"a batch of {min(batches)} needs more than {room} MiB")


def room_mib(total_mib: int) -> int:
    """What slots may use of a card."""
    return max(0, total_mib - max(RESERVE_MIB, round(total_mib * RESERVE_SHARE)))


def shrunk(plan: SlotPlan, footprint: Footprint) -> SlotPlan:
    """The plan after memory ran out under `plan`: half the batch, and at the smallest batch a slot less."""
    if plan.batch > min(BATCHES):
        batch = plan.batch // 2
        why = "memory ran out with twice the batch"
        return replace(plan, batch=batch, slot_mib=footprint.at(batch), measured_mib=0, why=why)
    if plan.slots > 1:
        return replace(plan, slots=plan.slots - 1, why="memory ran out with one slot more")
    return replace(plan, slots=0, why=f"memory ran out with one slot and a batch of {min(BATCHES)}")


def least_mib(card: Card, plan: SlotPlan, footprint: Footprint = GUESS) -> int:
    """What a slot needs with the smallest batch, by what was seen with the plan's; 0 where nobody looked.

    Where it does not fit at all: one more than the card has room for.
    """
    if not plan.fits:
        return room_mib(card.total_mib) + 1
    base = min(footprint.base, plan.measured_mib)
    return base + -(-(plan.measured_mib - base) * min(BATCHES) // plan.batch)


def slots_of(card: Card, book: PlanBook, *, asked: int, cores: int) -> int:
    """How many slots a card gets: as many as memory holds of the largest recipe known there, and processors feed.

    asked: an operator's number, which counts whatever is known; 0 for none.
    """
    if asked:
        return asked
    needs = [plan.measured_mib or plan.slot_mib for plan in book.of(card)]
    need = max(needs, default=GUESS.at(max(BATCHES)))
    fit = max(1, room_mib(card.total_mib) // need)
    return min(useful_slots(cores), fit)


def useful_slots(cores: int) -> int:
    """How many slots so many processors feed, as far as they help."""
    return max(1, min(MOST_USEFUL, cores // CORES_A_SLOT))


@dataclass(frozen=True, slots=True)
class Need:
    """What a recipe needs of a model of card, MiB: at least, and as it was seen with batches of `batch`."""

    recipe: str
    card: str
    needs_mb: int
    seen_mb: int
    batch: int


class PlanBook:
    """Plans that proved themselves, by card model, its memory and recipe digest, in a file of its own.

    A file that cannot be read is taken as empty: the plans are found again by trying.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def get(self, card: Card, recipe: str) -> SlotPlan | None:
        return self._read().get(_key(card, recipe))

    def of(self, card: Card) -> list[SlotPlan]:
        """All plans that fit this card."""
        start = _key(card, "")
        return [plan for key, plan in self._read().items() if key.startswith(start) and plan.fits]

    def needs(self, card: Card) -> tuple[Need, ...]:
        """What recipes need of such a card, for the farm: those with which somebody looked, or that do not fit."""
        start = _key(card, "")
        return tuple(
            Need(
                recipe=key.removeprefix(start),
                card=start.removesuffix("/")[:100],
                needs_mb=least_mib(card, plan),
                seen_mb=plan.measured_mib,
                batch=plan.batch,
            )
            for key, plan in sorted(self._read().items())
            if key.startswith(start) and (plan.measured_mib or not plan.fits)
        )

    def put(self, card: Card, recipe: str, plan: SlotPlan) -> None:
        with self._alone("write"):
            plans = {key: asdict(kept) for key, kept in {**self._read(), _key(card, recipe): plan}.items()}
            beside = self._path.with_suffix(".new")
            beside.write_text(json.dumps(plans, indent=1, sort_keys=True))
            beside.replace(self._path)

    def measuring(self) -> AbstractContextManager[None]:
        """Only one slot of the machine is within the block: two that time networks side by side time each other."""
        return self._alone("measure")

    @contextmanager
    def _alone(self, what: str) -> Iterator[None]:
        """The slots of a machine are processes of their own; the kernel lets go of the lock of one that dies."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.with_suffix(f".{what}").open("w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            yield

    def _read(self) -> dict[str, SlotPlan]:
        try:
            return {key: SlotPlan(**plan) for key, plan in json.loads(self._path.read_text()).items()}
        except (OSError, ValueError, TypeError, AttributeError):
            return {}


def _key(card: Card, recipe: str) -> str:
    return f"{card.name}/{card.total_mib}/{recipe}"
