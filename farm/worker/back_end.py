"""Which back end renders a chunk, and why: the card where there is one and recipe and plate fit, else the processor."""

from __future__ import annotations

from dataclasses import dataclass, field

from farm.errors import FarmError
from farm.faces.cuda.fit import plate_misfit, recipe_misfit, surface_of
from farm.faces.cuda.networks import CardNetworks
from farm.faces.cuda.overlay import Overlay
from farm.faces.cuda.pipeline import CardPipeline, Watcher
from farm.faces.cuda.rates import Rates
from farm.faces.identity import PreparedIdentity
from farm.faces.mapping import Mapping
from farm.faces.pipeline import FacePipeline
from farm.inference.session import Models
from farm.media.facts import PlateFacts
from farm.provenance.label import Label
from farm.recipe import Recipe
from farm.worker.card_slot import CardSlot

CPU = "cpu"


@dataclass(frozen=True, slots=True)
class Cast:
    """Who is put in for whom, in one job."""

    recipe: Recipe
    mapping: Mapping
    identities: dict[str, PreparedIdentity]


@dataclass(slots=True)
class BackEnd:
    """name: CPU, CARD or TWIN. why: what spoke against the card; "" where it is used. networks: its, open.

    batch_halved: how often memory ran out while this chunk was rendered.
    """

    name: str
    why: str
    networks: CardNetworks | None = None
    batch_halved: int = 0
    rates: Rates = field(default_factory=Rates)

    @property
    def on_card(self) -> bool:
        return self.networks is not None

    def report(self, **queues: int) -> dict[str, object]:
        """For the slot's report: what works, how fast, how full; `queues` are the depths between the stages."""
        fill = {} if self.networks is None else self.networks.fill()
        provider = "" if self.networks is None else self.networks.provider
        stages = {stage: round(rate, 1) for stage, rate in self.rates.fps().items()}
        return {"back_end": self.name, "provider": provider, "stages": stages, "queues": queues, "fill": fill}

    def record(self) -> dict[str, object]:
        """For the attempt's record."""
        told: dict[str, object] = {"back_end": self.name}
        if self.why:
            told["back_end_why"] = self.why
        if self.networks is not None:
            told |= {"batch": self.networks.batch, "batch_halved": self.batch_halved}
            told["card_models"] = self.networks.used()
        told["stages_fps"] = {stage: round(rate, 1) for stage, rate in self.rates.fps().items()}
        return told


def choose(slot: CardSlot, recipe: Recipe, facts: PlateFacts, models: Models) -> BackEnd:
    """The back end for a recipe and a plate, its networks open. Whatever stands in the card's way is a reason."""
    if not recipe.processors:
        return BackEnd(CPU, "nothing is changed")
    why = slot.missing or recipe_misfit(recipe, models) or plate_misfit(facts)
    if why:
        return BackEnd(CPU, why)
    try:
        return BackEnd(slot.name, "", slot.networks(recipe, models))
    except FarmError as error:
        return BackEnd(CPU, str(error))


def smaller(before: BackEnd, slot: CardSlot, recipe: Recipe, facts: PlateFacts, models: Models) -> BackEnd:
    """After memory ran out under `before`: the card with half the batch, or the processor where there is no less."""
    if not slot.shrink(recipe):
        return BackEnd(CPU, "the card's memory ran out with the smallest batch")
    after = choose(slot, recipe, facts, models)
    after.batch_halved = before.batch_halved + 1
    return after


def pipeline_of(
    back_end: BackEnd,
    cast: Cast,
    facts: PlateFacts,
    models: Models,
    label: Label | None,
    *,
    matte: bool,
    threads: int,
    watcher: Watcher | None = None,
    to_encoder: bool = False,
) -> CardPipeline | FacePipeline:
    """The pipeline; on the card it lays the label itself, and with `to_encoder` gives its frames there as well."""
    if back_end.networks is None:
        return FacePipeline(cast.recipe, cast.mapping, cast.identities, models, facts, threads=threads)
    surface = surface_of(facts)
    return CardPipeline(
        cast.recipe,
        cast.mapping,
        cast.identities,
        models,
        facts,
        back_end.networks,
        surface,
        overlay=Overlay.of(label.blends(surface.planar)) if label is not None else None,
        matte=matte,
        rates=back_end.rates,
        watcher=watcher,
        to_encoder=to_encoder,
    )
