"""Neural recipes through the pipeline, with stand-ins of every contract in an operator's catalogue folder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from farm.faces.candidate import PictureBytes
from farm.faces.cast import build_cast, observe
from farm.faces.identity import PreparedIdentity, prepare_identity
from farm.faces.mapping import Mapping, MappingMode, MappingRequest, resolve
from farm.faces.neural_identity import source_face, with_sources
from farm.faces.neural_source import SourceCache, raw_embedding
from farm.faces.neural_tensors import to_pictures, to_tensor
from farm.faces.pipeline import FacePipeline, Rendered
from farm.faces.report import Outcome, summarise
from farm.faces.views import Analyst
from farm.inference.catalogue import Catalogue
from farm.inference.session import Models
from farm.inference.spec import LicenceClass, ModelSpec, Task
from farm.media.colour import region_to_rgb
from farm.media.frame import Frame
from farm.recipe import ProcessorSpec, Recipe, preset
from farm.sample import portrait_picture
from tests.integration.faces.conftest import Plate
from tests.stand_ins import spoilt, stand_in_catalogue

OWN = Catalogue.load()
SWAPPERS = [spec.name for spec in OWN.of_task(Task.SWAPPER) if not spec.builtin and not spec.not_built]
RESTORERS = ["gfpgan-1.4", "gpen-bfr-256", "gpen-bfr-1024", "codeformer", "restoreformer-plus-plus"]
NEW, OLD = "grace_hopper", "astronaut"


@pytest.fixture(scope="module")
def stand_ins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Models]:
    folder = tmp_path_factory.mktemp("catalogue")
    bundled = ["mesh-warp", "real-esrgan-x2", "xseg-1", "bisenet-resnet-34"]
    deployment = stand_in_catalogue(folder / "models", folder / "home", [*SWAPPERS, *RESTORERS, *bundled])
    with deployment.open_models(providers=["CPUExecutionProvider"], allowed_licences=list(LicenceClass)) as opened:
        yield opened


@pytest.fixture(scope="module")
def mapping(plate: Plate, people: dict[str, PreparedIdentity], stand_ins: Models) -> Mapping:
    analyst = Analyst(stand_ins, plate.facts, hands=False)
    seen = [o for frame in plate.frames() if frame.index % 12 == 0 for o in observe(frame, analyst, seconds=0.5)]
    request = MappingRequest(mode=MappingMode.REFERENCE, references={OLD: NEW})
    return resolve(request, build_cast(seen, frames_seen=3), people)


def recipe(*processors: ProcessorSpec) -> Recipe:
    return Recipe(name="a-test", processors=processors)


def swap(model: str, **settings: object) -> ProcessorSpec:
    return ProcessorSpec(kind="swap", model=model, settings=settings)


def restore(model: str, **settings: object) -> ProcessorSpec:
    return ProcessorSpec(kind="restore", model=model, settings=settings)


class Stage:
    """The plate, its mapping and the people, ready to be rendered by a recipe."""

    def __init__(self, plate: Plate, mapping: Mapping, people: dict[str, PreparedIdentity], models: Models) -> None:
        self.plate, self.mapping, self.people, self.models = plate, mapping, people, models

    def identity(self, recipe: Recipe) -> PreparedIdentity:
        return with_sources(self.people[NEW], recipe, self.models)

    def render(self, recipe: Recipe, first: int = 0, last: int = 1, *, models: Models | None = None) -> list[Rendered]:
        identities = {NEW: self.identity(recipe)} if recipe.puts_in_faces else {}
        mapping = self.mapping if recipe.puts_in_faces else Mapping()
        pipeline = FacePipeline(recipe, mapping, identities, models or self.models, self.plate.facts)
        before, after = pipeline.context
        return list(pipeline.process(self.plate.frames(max(0, first - before), last + after), first, last))

    def originals(self, first: int = 0, last: int = 1) -> list[Frame]:
        return list(self.plate.frames(first, last))


@pytest.fixture(scope="module")
def stage(plate: Plate, mapping: Mapping, people: dict[str, PreparedIdentity], stand_ins: Models) -> Stage:
    return Stage(plate, mapping, people, stand_ins)


def rgb(frame: Frame) -> NDArray[np.float32]:
    return region_to_rgb(frame, (0, 0, frame.width, frame.height))


def planes(frame: Frame) -> list[bytes]:
    return [plane.tobytes() for plane in frame.planes]


def check_untouched(result: Rendered, original: Frame) -> NDArray[np.bool_]:
    """Nothing outside the mask may differ by one bit; gives the pixels that are changed enough to be looked at."""
    assert result.mask is not None
    assert (result.frame.planes[0] == original.planes[0])[result.mask == 0].all()
    touched = result.mask > 0
    half = touched.reshape(touched.shape[0] // 2, 2, touched.shape[1] // 2, 2).any(axis=(1, 3))
    # A chroma sample's footprint reaches half a luma pixel beyond its pair.
    near = np.pad(half, 1)
    half = near[1:-1, :-2] | near[1:-1, 1:-1] | near[1:-1, 2:] | near[:-2, 1:-1] | near[2:, 1:-1]
    for plane in (1, 2):
        assert (result.frame.planes[plane] == original.planes[plane])[~half].all()
    return result.mask > 8


def answer(spec: ModelSpec, plate: NDArray[np.float32], source: NDArray[np.float32]) -> NDArray[np.float32]:
    """What a swapper's stand-in makes of RGB pixels (n, 3)."""
    given = next(tensor for tensor in spec.inputs if tensor.kind == "image" and tensor.name != "source")
    made = next(tensor for tensor in spec.outputs if tensor.kind == "image")
    tensor = to_tensor(np.clip(plate, 0, 1)[None, None], given)
    if source.size == 0:  # an autoencoder: half the crop and a quarter of the morph factor
        tint = np.float32(spec.settings["morph"])
    elif source.ndim == 4:
        tint = source.mean(axis=(2, 3), keepdims=True)
    else:
        tint = source[:, :3].reshape(1, 3, 1, 1)
    return to_pictures(tensor / 2 + tint / 4, made)[0, 0]


@pytest.mark.parametrize("name", SWAPPERS)
def test_every_swapper_puts_its_answer_into_the_mapped_face_and_nowhere_else(stage: Stage, name: str) -> None:
    asked = recipe(swap(name))
    spec = stage.models.catalogue.spec(name)
    source = next(iter(stage.identity(asked).sources.values()))
    for result, original in zip(stage.render(asked), stage.originals(), strict=True):
        outcomes = sorted(str(face.outcome) for face in result.report.faces)
        assert outcomes == ["not mapped", "swapped"]
        seen = check_untouched(result, original)
        assert seen.sum() > 500
        assert result.mask is not None
        share = result.mask[seen][:, None] / np.float32(255)
        before, made = rgb(original)[seen], rgb(result.frame)[seen]
        wanted = before + (answer(spec, before, source) - before) * share
        assert np.abs(made - wanted).mean() < 0.03
        assert np.abs(made - before).mean() > 0.05 * share.mean()


@pytest.mark.parametrize("name", RESTORERS)
def test_every_restorer_changes_every_face_and_nothing_else(stage: Stage, name: str) -> None:
    asked = recipe(restore(name, blend=0.5))
    for result, original in zip(stage.render(asked, 0, 1), stage.originals(0, 1), strict=True):
        assert [face.outcome for face in result.report.faces] == [Outcome.RESTORED] * 2
        seen = check_untouched(result, original) & (result.mask == 255)
        assert seen.sum() > 500
        plate = rgb(original)[seen]
        factor = 0.5 if name == "codeformer" else 1.0
        wanted = plate + (0.5 - factor * (plate - 0.5) - plate) * 0.5
        assert np.abs(rgb(result.frame)[seen] - wanted).mean() < 0.03


@pytest.mark.parametrize(
    "asked",
    [
        recipe(swap("inswapper-128", boost=2, weight=0.8), restore("gfpgan-1.4")),
        recipe(swap("mesh-warp"), restore("codeformer", fidelity=0.7)),
        recipe(swap("simswap-256", colour=1.0, mask={"areas": ["face"], "occluders": ["xseg-1"], "erode": 0.02})),
    ],
    ids=["boost-weight-restore", "mesh-warp-restore", "masks"],
)
def test_one_chunk_and_many_are_the_same_frames(stage: Stage, asked: Recipe) -> None:
    whole = stage.render(asked, 4, 8)
    parts = [*stage.render(asked, 4, 7), *stage.render(asked, 7, 8)]
    assert [planes(one.frame) for one in parts] == [planes(one.frame) for one in whole]
    assert [one.report for one in parts] == [one.report for one in whole]
    assert any(face.outcome is Outcome.SWAPPED for one in whole for face in one.report.faces)


def test_several_pictures_count_by_their_mean_and_a_source_is_made_once(stage: Stage) -> None:
    asked = recipe(swap("inswapper-128"))
    pictures = [PictureBytes(portrait_picture(NEW).read_bytes(), "1"), PictureBytes(turned(NEW), "2")]
    one, other, both = (prepare_identity(some, stage.models) for some in (pictures[:1], pictures[1:], pictures))
    assert both.used == ("1", "2")
    assert both.other_portraits.shape == (1, 512, 512, 3)
    first, second, mean = (raw_of(who, stage.models) for who in (one, other, both))
    np.testing.assert_allclose(mean, (first + second) / 2, atol=1e-3)
    cache = SourceCache()
    made = [with_sources(both, asked, stage.models, cache).sources for _ in range(2)]
    (key,) = made[0]
    assert made[0][key] is made[1][key]
    again = PreparedIdentity.from_bytes(replace(both, sources=made[0]).to_bytes())
    np.testing.assert_array_equal(again.sources[key], made[0][key])


def turned(name: str) -> bytes:
    """The portrait, mirrored: another picture of the same person."""
    picture = cv2.imread(str(portrait_picture(name)))
    assert picture is not None
    return cv2.imencode(".png", picture[:, ::-1])[1].tobytes()


def raw_of(identity: PreparedIdentity, models: Models) -> NDArray[np.float32]:
    recogniser = models.load("arcface-w600k-r50")
    crops = source_face(identity, models.catalogue.spec("inswapper-128"), models).of("arcface_112_v2", 112)
    return raw_embedding(recogniser, crops)


def test_a_weight_above_the_middle_moves_away_from_the_plates_own_identity(stage: Stage) -> None:
    plain, strong = (
        rgb(stage.render(recipe(swap("hyperswap-1a-256", weight=weight)), 0, 1)[0].frame) for weight in (0.5, 1.0)
    )
    assert np.abs(plain - strong).max() > 0.003


def test_the_bundled_upscaler_doubles_frame_and_mask(stage: Stage) -> None:
    result = stage.render(preset("swap+upscale"), 0, 1)[0]
    assert (result.frame.width, result.frame.height) == (1280, 720)
    assert [plane.shape for plane in result.frame.planes] == [(720, 1280), (360, 640), (360, 640)]
    assert result.mask is not None
    assert result.mask.shape == (720, 1280)
    small = stage.render(preset("swap"), 0, 1)[0]
    shrunk = rgb(result.frame).reshape(360, 2, 640, 2, 3).mean(axis=(1, 3))
    assert np.abs(shrunk - rgb(small.frame)).mean() < 0.01
    assert result.report.unrestored is False


def test_the_whole_frame_cleaned_at_its_own_size_needs_no_face(stage: Stage) -> None:
    result, original = stage.render(preset("restore-frame"), 3, 4)[0], stage.originals(3, 4)[0]
    assert planes(result.frame) != planes(original)
    assert np.abs(rgb(result.frame) - rgb(original)).mean() < 0.02
    assert result.report.faces == ()
    assert result.mask is None


def test_what_is_no_number_is_made_again_in_full_or_left_and_said(stage: Stage, tmp_path: Path) -> None:
    names = ["inswapper-128", "gfpgan-1.4", "real-esrgan-x2", "mesh-warp"]
    half = {name: spoilt(name) for name in names[:3]}
    deployment = stand_in_catalogue(tmp_path / "models", tmp_path / "home", names, half=half)
    asked = recipe(swap("inswapper-128"), restore("gfpgan-1.4"))
    opening = {"providers": ["CPUExecutionProvider"], "allowed_licences": list(LicenceClass)}
    with deployment.open_models(**opening) as redone:
        again = stage.render(asked, 0, 1, models=redone)[0]
        assert {(use.name, use.precision) for use in redone.used()} >= {(n, p) for n in names[:2] for p in half_full()}
    assert planes(again.frame) == planes(stage.render(asked, 0, 1)[0].frame)
    assert [face.redone for face in again.report.faces] == [
        face.outcome is Outcome.SWAPPED for face in again.report.faces
    ]
    assert [(s.first, s.last) for s in summarise([again.report]).redone] == [(0, 0)]
    for name in names[:3]:
        deployment.library.remove(name, "fp32")
    with deployment.open_models(**opening) as broken:
        left = stage.render(recipe(*asked.processors, frame_restore()), 0, 1, models=broken)[0]
    assert planes(left.frame) == planes(stage.originals(0, 1)[0])
    assert {face.outcome for face in left.report.faces} == {Outcome.FAILED, Outcome.NOT_MAPPED}
    summary = summarise([left.report])
    assert (summary.unrestored, [stretch.first for stretch in summary.unrestored_in], summary.redone) == (1, [0], ())


def half_full() -> tuple[str, str]:
    return "fp16", "fp32"


def frame_restore() -> ProcessorSpec:
    return restore("real-esrgan-x2", scope="frame")
