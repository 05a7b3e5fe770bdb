"""What a slot keeps on its card: one recipe's networks, with the batch that the card holds and that is fast enough."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from threading import RLock
from time import perf_counter

import structlog

from farm.errors import OutOfMemoryError
from farm.faces.cuda.networks import CARD, TWIN, CardNetworks, Device, Restoring, Sight, Stage, Weights
from farm.faces.cuda.painter import step_settings
from farm.faces.cuda.swap import SwapSettings
from farm.faces.neural_settings import NeuralSwapSettings, RestoreSettings
from farm.inference import providers as ep
from farm.inference.buckets import ready
from farm.inference.opening import runtime
from farm.inference.session import Models
from farm.media import nvdec
from farm.recipe import MESH_WARP, RESTORE, Recipe
from farm.settings import Settings
from farm.worker.devices import Card, find_cards, load_nvml, process_mib
from farm.worker.gpu_fit import fitted
from farm.worker.plan_slots import BATCHES, GUESS, PLANS, PlanBook, SlotPlan, plan_slots, shrunk

log = structlog.get_logger(__name__)

_TWIN_BATCH = 8
_FAST_ENOUGH = 0.95
_TIMED_RUNS = 8


class CardSlot:
    """The card of this process, or the twin that stands for it; `missing` says why there is neither.

    Networks stay open from chunk to chunk of one recipe, those that look from recipe to recipe. Nothing touches the
    card before `claim`. Two threads may use it: the one that opens the eyes ahead, and the slot's own.
    """

    def __init__(self, settings: Settings, book: PlanBook, *, card: Card | None = None, missing: str = "") -> None:
        self._settings, self._book, self.card, self.missing = settings, book, card, missing
        self._twin = settings.back_end == TWIN
        self._held: tuple[str, CardNetworks] | None = None
        self._sight: Sight | None = None
        self._alone = RLock()

    @classmethod
    def here(cls, settings: Settings) -> CardSlot:
        """By the settings and what this machine has."""
        book = PlanBook(settings.home / PLANS)
        if settings.back_end == TWIN:
            return cls(settings, book)
        if settings.back_end == "cpu":
            return cls(settings, book, missing="FARM_BACK_END says so")
        card = own_card()
        return cls(settings, book, card=card, missing=_missing(card))

    @property
    def usable(self) -> bool:
        """Whether there is a card that nothing speaks against."""
        return self.card is not None and not self.missing

    @property
    def name(self) -> str:
        """Which back end it is: TWIN or CARD."""
        return TWIN if self._twin else CARD

    def claim(self) -> None:
        """Before anything else touches the card: the flags that its decoder needs. Nothing where there is none."""
        if self.usable:
            nvdec.claim_primary_context()

    def open_eyes(self, models: Models) -> None:
        """Open what every recipe needs, before the first chunk is there to wait for it; nothing where there is no card.

        The batch is the one that recipes had here, or what memory holds. Raises what `Sight` raises.
        """
        if self.card is None or self.missing:
            return
        known = [plan.batch for plan in self._book.of(self.card)]
        batch = max(known, default=plan_slots(self.card.total_mib, GUESS).batch)
        with self._alone:
            if self._sight is None and batch:
                self._sight = Sight(self._device(), models, batch)

    def networks(self, recipe: Recipe, models: Models) -> CardNetworks:
        """The recipe's networks, open. RecipeError where they cannot be run here or do not fit."""
        with self._alone:
            return self._networks(recipe, models)

    def _networks(self, recipe: Recipe, models: Models) -> CardNetworks:
        digest = recipe.digest()
        if self._held is not None and self._held[0] == digest:
            return self._held[1]
        self._let_go()
        told = networks_asked(recipe, models)

        def make(batch: int) -> CardNetworks:
            return self._opened(batch, models, *told)

        if self.card is None:
            made = make(_TWIN_BATCH)
        else:
            model, precision, *_ = told
            if model is not None and self._book.get(self.card, digest) is None:
                with self._book.measuring():
                    if self._book.get(self.card, digest) is None:
                        self._measure(self.card, digest, models, model, precision)
            made, _ = fitted(make, self.card, digest, GUESS, self._book)
        self._held = (digest, made)
        return made

    def shrink(self, recipe: Recipe) -> bool:
        """After memory ran out in the middle of a chunk: half the batch from now on; False where there is no less.

        Where several slots share the card, the recipe then counts as needing more than a slot's share, so that the
        worker's next start gives the card a slot less; where one has it alone, the recipe does not fit.
        """
        self.close()
        if self.card is None:
            return False
        plan = self._book.get(self.card, recipe.digest())
        if plan is None:
            return False
        smaller = shrunk(plan, GUESS)
        share = self._settings.slot_vram_mib
        if not smaller.fits and 0 < 2 * share <= self.card.total_mib:
            self._book.put(self.card, recipe.digest(), replace(plan, measured_mib=max(plan.measured_mib, share + 1)))
            return False
        self._book.put(self.card, recipe.digest(), smaller)
        return smaller.fits

    def remember(self, recipe: Recipe) -> int:
        """Note how much of the card this process has in use now, MiB; 0 where the driver does not tell."""
        if self.card is None:
            return 0
        used = process_mib(load_nvml(), self.card, os.getpid())
        plan = self._book.get(self.card, recipe.digest())
        if plan is not None and used > plan.measured_mib:
            self._book.put(self.card, recipe.digest(), replace(plan, measured_mib=used))
        return used

    def close(self) -> None:
        with self._alone:
            self._let_go()
            if self._sight is not None:
                self._sight.close()
                self._sight = None

    def _let_go(self) -> None:
        """Close what is of one recipe alone."""
        if self._held is not None:
            self._held[1].close()
            self._held = None

    def _device(self) -> Device:
        if self._twin:
            return Device(TWIN, threads=self._settings.threads or 1)
        return Device.card(self._settings.providers or ("auto",))

    def _opened(
        self,
        batch: int,
        models: Models,
        model: str | None,
        precision: str | None,
        settings: SwapSettings | None,
        restorer: Restoring | None,
    ) -> CardNetworks:
        """The recipe's own beside the eyes, which stay open from recipe to recipe of one batch size."""
        device = self._device()
        if self._sight is not None and self._sight.batch != batch:
            self._sight.close()
            self._sight = None
        if self._sight is None:
            self._sight = Sight(device, models, batch)
        return CardNetworks(device, models, model, precision, batch, settings, restorer=restorer, sight=self._sight)

    def _measure(self, card: Card, digest: str, models: Models, model: str, precision: str | None) -> None:
        """Time the swapper at each batch that fits, once for this card and recipe, and keep the choice."""
        rates = swapper_rates(self._device(), models, model, precision)
        if rates:
            batch = fast_enough(rates)
            why = f"measured: {', '.join(f'{size}: {rate:.0f}/s' for size, rate in sorted(rates.items()))}"
            self._book.put(card, digest, SlotPlan(1, batch, GUESS.at(batch), why))
            log.info("batch chosen", card=card.name, batch=batch, why=why)


def networks_asked(
    recipe: Recipe, models: Models
) -> tuple[str | None, str | None, SwapSettings | None, Restoring | None]:
    """The swapper's model, precision and settings, and the restorer; nothing of the swapper for mesh-warp."""
    model, precision, settings, restorer = None, None, None, None
    for spec in recipe.processors:
        if spec.kind == RESTORE:
            restorer = Restoring(spec.model, RestoreSettings.model_validate(spec.settings).precision)
        elif spec.model != MESH_WARP:
            asked = NeuralSwapSettings.model_validate(spec.settings)
            side = models.catalogue.spec(spec.model).input("target").size
            model, precision, settings = spec.model, asked.precision, step_settings(asked, side)
    return model, precision, settings, restorer


def swapper_rates(device: Device, models: Weights, model: str, precision: str | None) -> dict[int, float]:
    """Faces a second of the swapper at each batch for which the device has room, nothing else open."""
    rates: dict[int, float] = {}
    for batch in BATCHES:
        stage = Stage(device, models, name="measure")
        try:
            buckets = stage.network(model, (batch,), batch, precision=precision).buckets
            ready([buckets])
            start = perf_counter()
            for _ in range(_TIMED_RUNS):
                buckets.run(batch)
            stage.kernels.wait()
            rates[batch] = _TIMED_RUNS * batch / (perf_counter() - start)
        except OutOfMemoryError:
            continue
        finally:
            stage.close()
    return rates


def fast_enough(rates: Mapping[int, float]) -> int:
    """The largest batch whose rate is within 5 % of the best: what looks is the quicker for it, and stays open."""
    best = max(rates.values())
    return max(batch for batch, rate in rates.items() if rate >= _FAST_ENOUGH * best)


def own_card() -> Card | None:
    """The card that this process is given by CUDA_VISIBLE_DEVICES, as `farm worker` sets it."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    return next((card for card in find_cards(load_nvml()) if card.uuid == visible), None)


def _missing(card: Card | None) -> str:
    if card is None:
        return "this slot has no NVIDIA card"
    if find_spec("cupy") is None:
        return "CuPy is not installed (facefarm[gpu])"
    if ep.CUDA not in runtime().get_available_providers():
        return "this build of ONNX Runtime has no CUDA provider (facefarm[gpu])"
    return ""
