"""Which back end a chunk gets, batches by measurement, less of them when memory runs out; cards are numbers here."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import farm.worker.card_slot as module
from farm.errors import InfrastructureError, OutOfMemoryError, RecipeError
from farm.faces.cuda.networks import TWIN, Device, Opened, Restoring, Stage
from farm.inference.bound import PoisonedContextError, device_errors
from farm.inference.catalogue import Catalogue
from farm.media.facts import ColourFacts
from farm.recipe import ProcessorSpec, Recipe, preset
from farm.resources import resource
from farm.settings import Settings
from farm.worker import back_end
from farm.worker.card_slot import CardSlot, fast_enough, swapper_rates
from farm.worker.devices import Card, process_mib
from farm.worker.plan_slots import PlanBook, SlotPlan, slots_of
from farm.worker.toolbox import Toolbox

CARD = Card("GPU-1", "NVIDIA Test", 24576, 24000)
RECIPE = Recipe(name="r", processors=(ProcessorSpec(kind="swap", model="inswapper-128", settings={}),))
MODELS: Any = SimpleNamespace(catalogue=Catalogue.load())


class _StandIn:
    """The bundled weights without the rest of a deployment."""

    catalogue = Catalogue.load()

    def weights(self, name: str, precision: str | None = None) -> Path:
        return Path(str(resource("models"))) / "weights" / self.catalogue.spec(name).files["fp32"].file


class _Networks:
    """Open networks of one batch; slower in small batches."""

    def __init__(self, batch: int) -> None:
        self.batch, self.closed = batch, False

    def close(self) -> None:
        self.closed = True

    def used(self) -> list[dict[str, Any]]:
        return []


class _Maker:
    def __init__(self, most: int) -> None:
        self.most = most
        self.made: list[_Networks] = []

    def __call__(self, batch: int) -> _Networks:
        if batch > self.most:
            raise OutOfMemoryError("full")
        self.made.append(_Networks(batch))
        return self.made[-1]


@pytest.fixture
def maker(monkeypatch: pytest.MonkeyPatch) -> _Maker:
    made = _Maker(32)
    monkeypatch.setattr(CardSlot, "_opened", lambda _, batch, *__: made(batch))
    monkeypatch.setattr(module, "swapper_rates", lambda *_: {32: 1000, 16: 970, 8: 600, 4: 300})
    return made


def _slot(folder: Path) -> CardSlot:
    return CardSlot(Settings(), PlanBook(folder / "plans.json"), card=CARD)


def _facts(**video: Any) -> Any:
    told = {
        "width": 640, "height": 360, "sample_format": "yuv420p", "rotation": 0, "sample_aspect_ratio": 1,
        "display_matrix": None, "colour": ColourFacts(matrix="bt709", transfer="bt709"), **video,
    }  # fmt: skip
    return SimpleNamespace(video=SimpleNamespace(**told))


def test_the_largest_batch_that_is_fast_enough_is_measured_once_and_kept(
    tmp_path: Path, maker: _Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert fast_enough({32: 1000, 16: 1020, 8: 600}) == 32
    assert fast_enough({32: 900, 16: 1020, 8: 600}) == 16
    monkeypatch.setattr(module, "swapper_rates", lambda *_: {32: 900, 16: 1000, 8: 600, 4: 300})
    slot = _slot(tmp_path)
    networks: Any = slot.networks(RECIPE, MODELS)
    assert networks.batch == 16
    assert slot.networks(RECIPE, MODELS) is networks
    assert [made.batch for made in maker.made] == [16]

    def refuse(*_: Any) -> Any:
        raise AssertionError("measured again")

    monkeypatch.setattr(module, "swapper_rates", refuse)
    again: Any = _slot(tmp_path).networks(RECIPE, MODELS)
    assert again.batch == 16


def test_mesh_warp_takes_the_card_with_what_memory_holds_and_nothing_is_timed(
    tmp_path: Path, maker: _Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "swapper_rates", lambda *_: pytest.fail("there is no network to time"))
    chosen = back_end.choose(_slot(tmp_path), preset("swap"), _facts(), MODELS)
    assert (chosen.name, chosen.why) == ("card", "")
    assert [made.batch for made in maker.made] == [32]


def test_what_does_not_fit_is_opened_with_less(tmp_path: Path, maker: _Maker) -> None:
    maker.most = 8
    networks: Any = _slot(tmp_path).networks(RECIPE, MODELS)
    assert networks.batch == 8


def test_only_the_swapper_is_opened_to_be_timed_and_what_does_not_fit_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened: list[tuple[str, tuple[int, ...]]] = []
    inner = Stage.network

    def network(stage: Stage, name: str, sizes: tuple[int, ...], capacity: int, **told: Any) -> Opened:
        opened.append((name, sizes))
        if sizes[0] > 8:
            raise OutOfMemoryError("full")
        return inner(stage, name, sizes, capacity, **told)

    monkeypatch.setattr(Stage, "network", network)
    rates = swapper_rates(Device(TWIN), _StandIn(), "yunet", None)
    assert opened == [("yunet", (batch,)) for batch in (32, 16, 8, 4)]
    assert set(rates) == {8, 4}
    assert min(rates.values()) > 0


def test_eyes_stay_open_from_recipe_to_recipe_and_are_opened_anew_for_another_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class _Sight(_Networks):
        def __init__(self, device: Device, models: Any, batch: int) -> None:
            super().__init__(batch)
            sights.append(self)

    class _Swapper(_Networks):
        def __init__(
            self,
            device: Device,
            models: Any,
            model: str,
            precision: Any,
            batch: int,
            *_: Any,
            sight: Any,
            restorer: Any,
        ) -> None:
            super().__init__(batch)
            self.sight = sight

    sights: list[_Sight] = []
    monkeypatch.setattr(module, "Sight", _Sight)
    monkeypatch.setattr(module, "CardNetworks", _Swapper)
    book = PlanBook(tmp_path / "plans.json")
    other = Recipe(name="s", processors=(ProcessorSpec(kind="swap", model="simswap-256", settings={}),))
    for recipe, batch in ((RECIPE, 16), (other, 16)):
        book.put(CARD, recipe.digest(), SlotPlan(1, batch, 100, ""))
    slot = CardSlot(Settings(), book, card=CARD)
    first: Any = slot.networks(RECIPE, MODELS)
    second: Any = slot.networks(other, MODELS)
    assert (first.closed, second.closed) == (True, False)
    assert first.sight is second.sight is sights[0]
    assert slot.shrink(other)
    third: Any = slot.networks(other, MODELS)
    assert (third.batch, third.sight, sights[0].closed) == (8, sights[1], True)


def test_memory_that_runs_out_in_a_chunk_halves_the_batch_and_in_the_end_leaves_the_card(
    tmp_path: Path, maker: _Maker
) -> None:
    slot = _slot(tmp_path)
    chosen = back_end.choose(slot, RECIPE, _facts(), MODELS)
    seen = []
    while chosen.networks is not None:
        seen.append((chosen.networks.batch, chosen.batch_halved))
        chosen = back_end.smaller(chosen, slot, RECIPE, _facts(), MODELS)
    assert seen == [(32, 0), (16, 1), (8, 2), (4, 3)]
    assert chosen.record()["back_end"] == "cpu"
    assert "smallest batch" in chosen.why
    assert all(made.closed for made in maker.made)


@pytest.mark.parametrize(("share", "several"), [(5836, True), (0, False), (23347, False)])
def test_memory_that_runs_out_with_the_smallest_batch_takes_a_slot_where_there_are_several(
    tmp_path: Path, share: int, several: bool
) -> None:
    book = PlanBook(tmp_path / "plans.json")
    book.put(CARD, RECIPE.digest(), SlotPlan(1, 4, 2556, "", measured_mib=3000))
    assert slots_of(CARD, book, asked=0, cores=16) == 4
    slot = CardSlot(Settings(slot_vram_mib=share), book, card=CARD)
    assert not slot.shrink(RECIPE)
    plan = book.get(CARD, RECIPE.digest())
    assert plan is not None
    assert plan.fits is several
    assert not several or slots_of(CARD, book, asked=0, cores=16) == 3


def test_a_restorer_is_opened_behind_a_swapper_or_alone() -> None:
    model, _, settings, restorer = module.networks_asked(preset("swap-inswapper+gfpgan"), MODELS)
    assert (model, restorer) == ("inswapper-128", Restoring("gfpgan-1.4", None))
    assert settings is not None
    assert module.networks_asked(preset("swap+codeformer"), MODELS) == (None, None, None, Restoring("codeformer", None))
    assert module.networks_asked(preset("restore-codeformer"), MODELS)[3] == Restoring("codeformer", None)


@pytest.mark.parametrize("name", ["swap-inswapper+gfpgan", "swap+codeformer", "restore-restoreformer"])
def test_a_recipe_with_a_restorer_goes_to_the_card(tmp_path: Path, maker: _Maker, name: str) -> None:
    chosen = back_end.choose(_slot(tmp_path), preset(name), _facts(), MODELS)
    assert (chosen.name, chosen.why) == ("card", "")


@pytest.mark.parametrize(
    ("recipe", "facts", "missing", "why"),
    [
        (RECIPE, _facts(), "this slot has no NVIDIA card", "no NVIDIA card"),
        (preset("upscale-span"), _facts(), "", "nothing else"),
        (preset("passthrough"), _facts(), "", "nothing is changed"),
        (RECIPE, _facts(rotation=90), "", "turned"),
        (RECIPE, _facts(sample_format="yuv444p"), "", "yuv444p"),
        (RECIPE, _facts(colour=ColourFacts(transfer="smpte2084")), "", "colours"),
    ],
)
def test_every_reason_against_the_card_is_in_the_record(
    tmp_path: Path, maker: _Maker, recipe: Recipe, facts: Any, missing: str, why: str
) -> None:
    slot = CardSlot(Settings(), PlanBook(tmp_path / "p"), card=CARD, missing=missing)
    chosen = back_end.choose(slot, recipe, facts, MODELS)
    assert chosen.name == "cpu"
    assert why in str(chosen.record()["back_end_why"])
    assert maker.made == []


def test_networks_that_do_not_open_leave_the_chunk_to_the_processor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> Any:
        raise RecipeError("No requested execution provider can run it.")

    monkeypatch.setattr(CardSlot, "networks", refuse)
    chosen = back_end.choose(_slot(tmp_path), RECIPE, _facts(), MODELS)
    assert (chosen.name, chosen.on_card) == ("cpu", False)
    assert "No requested execution provider" in chosen.why


def test_what_a_slot_used_is_kept_and_decides_how_many_slots_there_are(tmp_path: Path, maker: _Maker) -> None:
    book = PlanBook(tmp_path / "plans.json")
    assert slots_of(CARD, book, asked=0, cores=64) == 1
    book.put(CARD, "r", SlotPlan(1, 16, 6000, "", measured_mib=5000))
    assert slots_of(CARD, book, asked=0, cores=64) == 4
    assert slots_of(CARD, book, asked=0, cores=8) == 2
    assert slots_of(CARD, book, asked=7, cores=8) == 7
    book.put(CARD, "s", SlotPlan(1, 32, 20000, ""))
    assert slots_of(CARD, book, asked=0, cores=64) == 1


def test_a_process_s_memory_is_what_the_driver_says_of_it() -> None:
    class _Nvml:
        def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
            return uuid

        def nvmlDeviceGetComputeRunningProcesses(self, _: str) -> list[Any]:
            return [SimpleNamespace(pid=7, usedGpuMemory=300 << 20), SimpleNamespace(pid=8, usedGpuMemory=None)]

    assert process_mib(_Nvml(), CARD, 7) == 300
    assert process_mib(_Nvml(), CARD, 8) == 0
    assert process_mib(None, CARD, 7) == 0
    assert process_mib(SimpleNamespace(), CARD, 7) == 0


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Out of memory allocating 512 bytes", OutOfMemoryError),
        ("cudaErrorIllegalAddress: an illegal memory access was encountered", PoisonedContextError),
        ("cudaErrorUnknown", InfrastructureError),
    ],
)
def test_cupy_s_errors_become_the_farm_s(text: str, kind: type[Exception]) -> None:
    error = type("CUDARuntimeError", (RuntimeError,), {"__module__": "cupy_backends.cuda.api.runtime"})
    with pytest.raises(kind), device_errors("a chunk"):
        raise error(text)
    with pytest.raises(KeyError), device_errors("a chunk"):
        raise KeyError(text)


def _opened_sights(monkeypatch: pytest.MonkeyPatch, error: Exception | None = None) -> list[int]:
    batches: list[int] = []

    def open_sight(_: Any, __: Any, batch: int) -> Any:
        if error is not None:
            raise error
        batches.append(batch)
        return SimpleNamespace(batch=batch, close=lambda: None)

    monkeypatch.setattr(module, "Sight", open_sight)
    return batches


def test_eyes_are_opened_ahead_with_the_batch_that_is_likely_and_the_first_chunk_uses_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = _opened_sights(monkeypatch)
    given: list[Any] = []
    monkeypatch.setattr(module, "CardNetworks", lambda *_, sight, **__: given.append(sight))
    slot = _slot(tmp_path)
    slot.open_eyes(MODELS)
    slot.open_eyes(MODELS)
    assert batches == [32]
    slot.networks(preset("swap"), MODELS)
    assert batches == [32]
    assert given[0].batch == 32
    book = PlanBook(tmp_path / "other.json")
    book.put(CARD, "a recipe", SlotPlan(1, 16, 4000, "measured"))
    CardSlot(Settings(), book, card=CARD).open_eyes(MODELS)
    assert batches == [32, 16]


def test_no_eyes_are_opened_where_no_card_can_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batches = _opened_sights(monkeypatch)
    book = PlanBook(tmp_path / "plans.json")
    for slot in (CardSlot(Settings(), book), CardSlot(Settings(), book, card=CARD, missing="CuPy is not installed")):
        assert not slot.usable
        slot.open_eyes(MODELS)
    assert batches == []


def test_what_fails_when_a_slot_is_warmed_is_left_to_the_first_chunk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _opened_sights(monkeypatch, OutOfMemoryError("full"))
    toolbox = Toolbox(Settings(), None)
    toolbox._card = _slot(tmp_path)
    monkeypatch.setattr(Toolbox, "models", lambda _: MODELS)
    monkeypatch.setattr(module.nvdec, "claim_primary_context", lambda: None)
    toolbox._warm()
    with pytest.raises(OutOfMemoryError):
        toolbox.card.open_eyes(MODELS)
