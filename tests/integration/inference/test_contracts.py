"""Every contract of the catalogue, end to end, on a stand-in of its signature, against an answer worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from farm.faces.neural_detect import CatalogueDetector
from farm.faces.neural_masks import Occluder, Regions
from farm.faces.neural_points import Landmarker68
from farm.faces.neural_restore import Restorer
from farm.faces.neural_source import SourceFace
from farm.faces.neural_swap import open_swapper
from farm.faces.neural_upscale import Upscaler
from farm.inference.catalogue import Catalogue
from farm.inference.spec import ModelSpec, Task
from farm.inference.standins import CHANNEL_WEIGHTS, FACE_BOX, FACE_POINTS, emap, landmark_grid
from farm.inference.templates import template
from tests.integration.inference.conftest import Opener

CATALOGUE = Catalogue.load()
WITH_CONTRACT = [spec for spec in CATALOGUE if not (spec.bundled or spec.builtin or spec.not_built)]

Array = NDArray[Any]


def of(*tasks: Task) -> list[Any]:
    return [pytest.param(spec, id=spec.name) for spec in WITH_CONTRACT if spec.task in tasks]


def pictures(count: int, side: int, seed: int = 0) -> NDArray[np.uint8]:
    """RGB pictures whose channels differ, so that a swapped channel order cannot pass."""
    random = np.random.default_rng(seed)
    grain = random.integers(0, 90, (count, side, side, 3))
    return (grain + np.array([20, 80, 160])).astype(np.uint8)


def identity(seed: int = 5) -> SourceFace:
    crops = {name: pictures(2, side, seed) for name, side in (("arcface_112_v2", 112), ("ffhq_512", 256))}
    return SourceFace(crops=crops, digest=f"digest-{seed}")


@pytest.mark.parametrize("spec", of(*Task))
def test_every_contract_loads_runs_and_gives_its_shapes(open_stand_ins: Opener, spec: ModelSpec) -> None:
    model = open_stand_ins(spec.name).load(spec.name)
    (shape,) = spec.runtime.tested_shapes
    feed: dict[str, Array] = {}
    for tensor in spec.inputs:
        sizes = shape if tensor is spec.inputs[0] else [1 if size == "N" else int(size) for size in tensor.shape]
        feed[tensor.name] = np.random.default_rng(1).random(sizes).astype(tensor.dtype)
    outputs = model.run(**feed)
    assert set(outputs) == {tensor.name for tensor in spec.outputs}
    for tensor in spec.outputs:
        found = outputs[tensor.name]
        assert found.dtype == np.dtype(tensor.dtype)
        assert len(found.shape) == len(tensor.shape)
        assert all(n == said for n, said in zip(found.shape, tensor.shape, strict=True) if isinstance(said, int))


# What the published contracts say, written out again and without the product's code: size of the target, mean and
# standard deviation it is normalised with, whether the output is taken back, and how the source vector is made.
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
HALF = ((0.5,) * 3, (0.5,) * 3)
PLAIN = ((0.0,) * 3, (1.0,) * 3)
SWAPPERS = {
    "inswapper-128": (128, PLAIN, False, "emap"),
    "instyle-256-a": (256, PLAIN, False, "unit emap"),
    "instyle-256-b": (256, PLAIN, False, "unit emap"),
    "instyle-256-c": (256, PLAIN, False, "unit emap"),
    "hyperswap-1a-256": (256, HALF, True, "unit"),
    "hyperswap-1b-256": (256, HALF, True, "unit"),
    "hyperswap-1c-256": (256, HALF, True, "unit"),
    "simswap-256": (256, IMAGENET, False, "unit converted"),
    "simswap-unofficial-512": (512, PLAIN, False, "unit converted"),
    "ghost-1-256": (256, HALF, True, "raw"),
    "ghost-2-256": (256, HALF, True, "raw"),
    "ghost-3-256": (256, HALF, True, "raw"),
    "hififace-unofficial-256": (256, HALF, True, "unit converted"),
    "uniface-256": (256, HALF, True, "picture 256"),
    "blendswap-256": (256, PLAIN, False, "picture 112"),
}


def arcface(crops: NDArray[np.uint8]) -> Array:
    """The recogniser stand-in in NumPy: RGB, x / 127.5 - 1, weighted channels, means of 7 by 3 pixels, 16 by 32."""
    values = crops.astype(np.float64) / 127.5 - 1
    grey = values @ np.array(CHANNEL_WEIGHTS)
    cells = grey[:, :112, :96].reshape(len(crops), 16, 7, 32, 3).mean(axis=(2, 4))
    return cells.reshape(len(crops), 512).mean(axis=0)


def tint(how: str) -> Array:
    """The first three numbers of the source, or the channel means of the source picture."""
    if how.startswith("picture"):
        crops = identity().crops["ffhq_512" if how.endswith("256") else "arcface_112_v2"]
        return crops[0].reshape(-1, 3).mean(axis=0) / 255
    raw = arcface(identity().crops["arcface_112_v2"])
    length = np.linalg.norm(raw)
    if how == "emap":
        return (raw / length) @ emap()[:, :3]
    if how == "unit emap":
        return raw @ emap()[:, :3] / np.linalg.norm(raw @ emap())
    if how == "unit converted":
        return raw[::-1][:3] / length
    return raw[:3] / (length if how == "unit" else 1)


def test_the_table_above_has_every_swapper() -> None:
    assert {spec.name for spec in WITH_CONTRACT if spec.task is Task.SWAPPER} == {*SWAPPERS, "dfm"}


@pytest.mark.parametrize("name", SWAPPERS)
def test_a_swapper_does_what_its_published_contract_says(open_stand_ins: Opener, name: str) -> None:
    size, (mean, std), denormalise, how = SWAPPERS[name]
    models = open_stand_ins(name)
    swapper = open_swapper(models, models.catalogue.spec(name))
    crops = pictures(2, size)
    result = swapper.swap(crops, swapper.source(identity()))
    values = (crops / 255 - np.array(mean)) / np.array(std) / 2 + tint(how) / 4
    expected = np.clip(values * std + mean if denormalise else values, 0, 1)
    np.testing.assert_allclose(result.faces, expected, atol=2e-5)
    assert swapper.side == size
    assert result.ok.all()
    assert not result.redone.any()
    assert (result.masks is not None) == name.startswith("hyperswap")


@pytest.mark.parametrize("name", ["inswapper-128", "hyperswap-1a-256", "uniface-256"])
@pytest.mark.parametrize("batch", [None, 1])
def test_pixel_boost_swaps_every_phase_whether_the_graph_takes_batches_or_not(
    open_stand_ins: Opener, name: str, batch: int | None
) -> None:
    models = open_stand_ins(name, batch=batch)
    assert models.load(name).batches is (batch is None)
    swapper = open_swapper(models, models.catalogue.spec(name))
    source = swapper.source(identity())
    large = pictures(2, 2 * swapper.side)
    whole = swapper.swap(large, source)
    assert whole.faces.shape == large.shape
    for row in (0, 1):
        for column in (0, 1):
            phase = swapper.swap(np.ascontiguousarray(large[:, row::2, column::2]), source)
            np.testing.assert_allclose(whole.faces[:, row::2, column::2], phase.faces, atol=1e-6)
            if whole.masks is not None and phase.masks is not None:
                np.testing.assert_allclose(whole.masks[:, row::2, column::2], phase.masks, atol=1e-6)


def test_a_graph_of_batch_one_is_freed_and_gives_the_same(open_stand_ins: Opener) -> None:
    fixed = open_stand_ins("inswapper-128", batch=1)
    freed = open_stand_ins("inswapper-128", batch=1, free_batches=True)
    crops = pictures(3, 128)
    results = []
    for models in (fixed, freed):
        swapper = open_swapper(models, models.catalogue.spec("inswapper-128"))
        results.append(swapper.swap(crops, swapper.source(identity())).faces)
    assert not fixed.load("inswapper-128").batches
    assert freed.load("inswapper-128").batches
    np.testing.assert_array_equal(results[0], results[1])


def test_a_dfm_gets_bgr_rows_and_a_morph_and_its_masks_are_the_lesser_of_two(open_stand_ins: Opener) -> None:
    models = open_stand_ins("dfm")
    swapper = open_swapper(models, models.catalogue.spec("dfm"))
    crops = pictures(2, 224)
    result = swapper.swap(crops, swapper.source(identity()))
    np.testing.assert_allclose(result.faces, np.clip(crops / 255 / 2 + 0.75 / 4, 0, 1), atol=1e-6)
    assert result.masks is not None
    np.testing.assert_allclose(result.masks, crops[..., 2] / 255, atol=1e-6)  # the first of B, G, R


@pytest.mark.parametrize("spec", of(Task.RESTORER))
def test_a_restorer_normalises_and_blends(open_stand_ins: Opener, spec: ModelSpec) -> None:
    restorer = Restorer(open_stand_ins(spec.name), spec.name, blend=0.5)
    side = {"gpen-bfr-256": 256, "gpen-bfr-1024": 1024, "gpen-bfr-2048": 2048}.get(spec.name, 512)
    crops = pictures(1, side)
    given = crops / 255
    made = ((given - 0.5) / 0.5) * (-0.5 if spec.name == "codeformer" else -1) * 0.5 + 0.5
    assert restorer.side == side
    np.testing.assert_allclose(restorer.restore(crops).faces, (given + made) / 2, atol=1e-5)


@pytest.mark.parametrize("spec", of(Task.UPSCALER))
@pytest.mark.parametrize("shape", [(40, 72), (150, 131)])
def test_an_upscaler_weaves_tiles_without_a_seam(
    open_stand_ins: Opener, spec: ModelSpec, shape: tuple[int, int]
) -> None:
    scale = 8 if spec.name.endswith("x8") else 2 if spec.name.endswith("x2") else 4
    picture = np.random.default_rng(3).random((*shape, 3)).astype(np.float32)
    result = Upscaler(open_stand_ins(spec.name), spec.name, tile=64, overlap=8, batch=3).upscale(picture)
    expected = picture.repeat(scale, axis=0).repeat(scale, axis=1) / 2
    np.testing.assert_allclose(result, expected, atol=1e-5)


@pytest.mark.parametrize("spec", of(Task.DETECTOR))
def test_a_detector_finds_the_one_face_where_it_is(open_stand_ins: Opener, spec: ModelSpec) -> None:
    detector = CatalogueDetector(open_stand_ins(spec.name), spec.name)
    (face,) = detector(np.zeros((960, 1280, 3), np.uint8))  # shrunk by two to fit 640
    np.testing.assert_allclose(face.box, np.array(FACE_BOX) * 2, atol=1e-3)
    np.testing.assert_allclose(face.five, np.array(FACE_POINTS) * 2, atol=1e-3)
    assert face.score == pytest.approx(0.875)
    (small,) = detector(np.zeros((300, 400, 3), np.uint8))  # never enlarged
    np.testing.assert_allclose(small.box, FACE_BOX, atol=1e-3)


@pytest.mark.parametrize("spec", of(Task.LANDMARKER))
def test_a_landmarker_maps_its_points_back_to_the_picture(open_stand_ins: Opener, spec: ModelSpec) -> None:
    box = np.array([100.0, 50.0, 295.0, 200.0])  # 195 px wide: the crop keeps the scale and moves it
    five = template("ffhq_512", 512) + np.array([30, -20])
    found = Landmarker68(open_stand_ins(spec.name), spec.name)(np.zeros((400, 500, 3), np.uint8), box, five)
    if spec.name == "fan-68-5":
        np.testing.assert_allclose(found.points, np.tile(five.mean(axis=0), (68, 1)), atol=1e-3)
        assert found.score == 1
    else:
        inside = landmark_grid() * 256 / 64
        np.testing.assert_allclose(found.points, inside + np.array([197.5 - 128, 125 - 128]), atol=1e-3)
        assert found.score == pytest.approx(0.5)


@pytest.mark.parametrize("spec", of(Task.OCCLUSION_MASK))
def test_an_occluder_reads_its_own_colour_order(open_stand_ins: Opener, spec: ModelSpec) -> None:
    crops = pictures(2, 256)
    mask = Occluder(open_stand_ins(spec.name), spec.name)(crops)
    expected = np.ones(crops.shape[:3]) if spec.name == "occluder" else crops[..., 2] / 255
    np.testing.assert_allclose(mask, expected, atol=1e-6)
    assert Occluder(open_stand_ins(spec.name), spec.name)(pictures(1, 512)).shape == (1, 512, 512)


@pytest.mark.parametrize("spec", of(Task.REGION_MASK))
def test_regions_are_those_that_were_chosen(open_stand_ins: Opener, spec: ModelSpec) -> None:
    models = open_stand_ins(spec.name)
    crops = np.zeros((1, 512, 512, 3), np.uint8)
    crops[:, :200, :, 0] = 255  # class 1, skin
    crops[:, 200:300, :, 1] = 255  # class 10, nose
    crops[:, 300:, :, 2] = 255  # class 17, hair
    skin = Regions(models, spec.name, regions=["skin"])(crops)
    face = Regions(models, spec.name)(crops)
    assert skin[0, :200].min() == 1
    assert skin[0, 200:].max() == 0
    assert face[0, :300].min() == 1
    assert face[0, 300:].max() == 0


def test_converters_and_attributes_run_through_the_same_door(open_stand_ins: Opener) -> None:
    models = open_stand_ins("fairface", "crossface-ghost")
    vector = np.arange(512, dtype=np.float32)[None]
    np.testing.assert_array_equal(
        models.load("crossface-ghost").run(input=vector)["embedding"], vector[:, ::-1] * np.float32(2)
    )
    ids = models.load("fairface").run(input=np.zeros((1, 3, 224, 224)))
    assert [int(ids[name][0]) for name in ("race", "gender", "age")] == [1, 2, 3]
