"""A chunk's pipeline on a card: against its NumPy twin, with the card's decoder, in parts, and over many chunks."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from farm.faces.candidate import PictureBytes
from farm.faces.cuda.fit import surface_of
from farm.faces.cuda.networks import TWIN, CardNetworks, Device, Restoring
from farm.faces.cuda.overlay import Overlay
from farm.faces.cuda.painter import step_settings
from farm.faces.cuda.pipeline import CONTEXT, CardPipeline
from farm.faces.identity import PreparedIdentity, prepare_identity
from farm.faces.mapping import Mapping
from farm.faces.neural_identity import with_sources
from farm.faces.neural_settings import NeuralSwapSettings
from farm.faces.pipeline import Rendered
from farm.inference import providers as ep
from farm.inference.session import Models
from farm.inference.spec import LicenceClass
from farm.media import nvdec
from farm.media.facts import PlateFacts
from farm.media.probe import probe
from farm.media.reader import read_segment
from farm.media.scan import scan_timeline
from farm.media.segment import cut_segments
from farm.media.segmentdecoder import segment_decoder
from farm.media.timeline import Timeline
from farm.provenance.label import Label
from farm.recipe import ProcessorSpec, Recipe
from farm.sample import generate, portrait_picture
from tests.stand_ins import stand_in_catalogue

pytestmark = pytest.mark.gpu
log = logging.getLogger(__name__)
CHUNKS = 200
GROWTH_MIB = 64
LAST = 24
LEAST_DB = 50.0
RECIPE = Recipe(name="a-test", processors=(ProcessorSpec(kind="swap", model="inswapper-128", settings={}),))
RESTORED = Recipe(
    name="a-test",
    processors=(
        ProcessorSpec(kind="swap", model="inswapper-128", settings={"colour": 0.5}),
        ProcessorSpec(kind="restore", model="codeformer", settings={"fidelity": 0.4, "blend": 0.7}),
    ),
)
MATCHED = Recipe(
    name="a-test", processors=(ProcessorSpec(kind="swap", model="inswapper-128", settings={"colour": 1.0}),)
)


@dataclass(frozen=True)
class Range:
    first: int
    last: int


@dataclass
class Stage:
    models: Models
    person: PreparedIdentity
    facts: PlateFacts
    timeline: Timeline
    segment: Path
    networks: dict[str, CardNetworks]

    def render(
        self, device: str, first: int, last: int, *, on_card: bool = False, recipe: Recipe = RECIPE
    ) -> list[Rendered]:
        surface = surface_of(self.facts)
        pipeline = CardPipeline(
            recipe, Mapping(everyone="a"), {"a": self.person}, self.models, self.facts, self.networks[device], surface,
            overlay=Overlay.of(Label(self.facts.video).blends(surface.planar)), matte=True,
        )  # fmt: skip
        low, high = max(0, first - CONTEXT[0]), min(len(self.timeline), last + CONTEXT[1])
        frames = read_segment(self.segment, self.facts, self.timeline, low, high, threads=2, on_card=on_card)
        return list(pipeline.process(frames, first, last))


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    pytest.importorskip("cupy", reason="needs CuPy")
    if not nvdec.claim_primary_context():
        pytest.skip("no CUDA driver")
    folder = tmp_path_factory.mktemp("stage")
    plate = generate(folder, seconds=2.5, size=(640, 360), people=1).plate
    deployment = stand_in_catalogue(folder / "catalogue", folder / "home", ["inswapper-128", "codeformer"])
    with deployment.open_models(providers=["CPUExecutionProvider"], allowed_licences=list(LicenceClass)) as models:
        person = prepare_identity([PictureBytes(portrait_picture("grace_hopper").read_bytes(), "a")], models)
        facts = probe(plate)
        timeline = scan_timeline(plate, facts)
        wanted = [Range(0, len(timeline))]
        [segment] = cut_segments(plate, facts, timeline, wanted, folder, before=CONTEXT[0], after=CONTEXT[1])
        settings = step_settings(NeuralSwapSettings(), 128)
        restorer = Restoring("codeformer", None)
        networks = {
            device.name: CardNetworks(device, models, "inswapper-128", None, batch, settings, restorer=restorer)
            for device, batch in ((Device(TWIN, threads=8), 8), (Device.card([ep.CUDA]), 16))
        }
        yield Stage(models, with_sources(person, RECIPE, models), facts, timeline, segment.path, networks)


def _planes(made: list[Rendered]) -> list[np.ndarray[Any, Any]]:
    return [plane for one in made for plane in one.frame.planes]


def _apart(made: list[Rendered], told: list[Rendered]) -> tuple[int, float]:
    """The largest difference of samples, and the share of samples that differ."""
    pairs = list(zip(_planes(made), _planes(told), strict=True))
    most = max(int(np.abs(a.astype(int) - b).max()) for a, b in pairs)
    return most, float(sum((a != b).sum() for a, b in pairs) / sum(a.size for a, _ in pairs))


@pytest.mark.parametrize("recipe", [RECIPE, MATCHED, RESTORED], ids=["plain", "colours", "restored"])
def test_the_card_is_its_twin(stage: Stage, recipe: Recipe) -> None:
    card, twin = (stage.render(name, 0, LAST, recipe=recipe) for name in ("card", "twin"))
    errors = []
    for mine, told in zip(card, twin, strict=True):
        assert [face.outcome for face in mine.report.faces] == [face.outcome for face in told.report.faces]
        assert mine.report.swapped
        assert mine.mask is not None
        assert told.mask is not None
        outside = (mine.mask == 0) & (told.mask == 0)
        luma, other = mine.frame.planes[0], told.frame.planes[0]
        assert np.array_equal(luma[outside], other[outside])
        errors.append((luma.astype(float) - other)[~outside])
    psnr = 10 * np.log10(255**2 / np.mean(np.concatenate(errors) ** 2))
    log.info("card against twin: %.1f dB", psnr)
    assert psnr > LEAST_DB


def test_what_the_card_s_decoder_gives_is_rendered_alike(stage: Stage) -> None:
    choice = segment_decoder(stage.segment, stage.facts, stage.timeline)
    log.info("decoder: %s", choice)
    assert choice.name == nvdec.NVDEC, choice.why
    card, host = stage.render("card", 5, LAST, on_card=True), stage.render("card", 5, LAST)
    assert _apart(card, host) == (0, 0.0)
    assert [one.report for one in card] == [one.report for one in host]


def test_one_chunk_and_many_are_the_same_frames(stage: Stage) -> None:
    whole = stage.render("card", 0, LAST)
    parts = [*stage.render("card", 0, 7), *stage.render("card", 7, LAST)]
    assert [[f.outcome for f in one.report.faces] for one in parts] == [
        [f.outcome for f in one.report.faces] for one in whole
    ]
    most, share = _apart(parts, whole)
    log.info("chunks: at most %d apart, %.2e of the samples", most, share)
    assert most <= 1
    assert share < 1e-3


def test_memory_is_flat_over_many_chunks(stage: Stage) -> None:
    import cupy

    free = []
    for _ in range(CHUNKS):
        stage.render("card", 12, 16, on_card=True)
        free.append(cupy.cuda.runtime.memGetInfo()[0] >> 20)
    log.info("memory grew by %d MiB from chunk 10 to %d", free[10] - free[-1], CHUNKS)
    assert free[10] - free[-1] <= GROWTH_MIB


@pytest.mark.parametrize("name", ["landmarker", "swapper"])
def test_a_sample_s_answer_does_not_depend_on_how_many_run_with_it(stage: Stage, name: str) -> None:
    """Bit for bit where the provider runs both sizes by the same algorithm; a few last bits otherwise."""
    card = stage.networks["card"]
    opened, work = (card.swapper, card.hand) if name == "swapper" else (card.eyes[0].landmarker, card.eyes[0])
    buckets, kernels = opened.buckets, work.kernels
    given = opened.spec.inputs[-1].in_graph
    made = opened.spec.outputs[0].in_graph
    random = np.random.default_rng(3)
    values = random.random(buckets.arrays[given].shape).astype(buckets.arrays[given].dtype)[: buckets.sizes[-1]]
    answers = []
    for size in (buckets.sizes[-1], buckets.sizes[0]):
        kernels.upload(values, buckets.arrays[given])
        buckets.run(size)
        answers.append(kernels.download(buckets.arrays[made][: buckets.sizes[0]]).astype(np.float64))
    apart = float(np.abs(answers[0] - answers[1]).max())
    log.info("%s: sizes %s differ by %.3g", name, buckets.sizes, apart)
    np.testing.assert_allclose(answers[1], answers[0], rtol=2e-2, atol=2e-2 * np.abs(answers[0]).max())
