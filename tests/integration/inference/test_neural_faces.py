"""What the adapters do beyond the contract: safety, caches, sliders, masks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from farm.errors import RecipeError
from farm.faces import neural_boost
from farm.faces.neural_masks import box_mask, combined, eroded_blur
from farm.faces.neural_restore import Restorer
from farm.faces.neural_safety import usable
from farm.faces.neural_source import SourceCache, SourceFace, embedding_source, read_emap, weighted
from farm.faces.neural_swap import EmbeddingSwapper, open_swapper
from farm.faces.neural_upscale import Upscaler
from farm.inference.catalogue import Catalogue
from farm.inference.session import Models
from farm.inference.standins import emap, stand_in
from tests.integration.inference.conftest import Opener
from tests.integration.inference.test_contracts import identity, pictures

CATALOGUE = Catalogue.load()


def spoilt(name: str, factor: float) -> bytes:
    """The stand-in of `name` with its output multiplied by `factor`: nan for infinities, 0 for a black face."""
    model = onnx.load_from_string(stand_in(CATALOGUE.spec(name)))
    out = model.graph.output[0].name
    for node in model.graph.node:
        node.output[:] = ["before" if made == out else made for made in node.output]
    model.graph.initializer.insert(0, numpy_helper.from_array(np.float32(factor), "factor"))
    model.graph.node.append(onnx.helper.make_node("Mul", ["before", "factor"], [out]))
    return model.SerializeToString()


@pytest.mark.parametrize("factor", [float("nan"), float("inf"), 0.0])
def test_an_unusable_half_precision_face_is_made_again_in_full(open_stand_ins: Opener, factor: float) -> None:
    crops = pictures(2, 128)
    good = open_stand_ins("inswapper-128")
    bad = open_stand_ins("inswapper-128", broken={"inswapper-128": spoilt("inswapper-128", factor)})
    swappers = [open_swapper(models, models.catalogue.spec("inswapper-128")) for models in (good, bad)]
    first, second = (swapper.swap(crops, swapper.source(identity())) for swapper in swappers)
    assert second.ok.all()
    assert second.redone.all()
    np.testing.assert_array_equal(first.faces, second.faces)


def test_a_face_that_stays_unusable_is_left_as_it_was_and_said(open_stand_ins: Opener) -> None:
    bad = open_stand_ins("gfpgan-1.4", broken={"gfpgan-1.4": spoilt("gfpgan-1.4", float("nan"))})
    only = bad.catalogue.spec("gfpgan-1.4")
    files = {"fp16": only.files["fp16"]}
    alone = Catalogue({only.name: only.model_copy(update={"files": files})}, {only.name: Path()})
    models = Models(alone, library=bad._library)
    crops = pictures(2, 512)
    result = Restorer(models, "gfpgan-1.4", blend=1).restore(crops)
    models.close()
    assert not result.ok.any()
    assert not result.redone.any()
    np.testing.assert_allclose(result.faces, crops / 255, atol=1e-6)


def test_usable_tells_flat_answers_from_flat_questions() -> None:
    busy = np.random.default_rng(0).random((3, 3, 8, 8)).astype(np.float32)
    flat = np.full((3, 3, 8, 8), 0.5, np.float32)
    assert usable(busy, busy).all()
    assert not usable(flat, busy).any()
    assert usable(flat, flat).all(), "a flat picture may stay flat"
    broken = busy.copy()
    broken[1, 0, 0, 0] = np.inf
    assert usable(broken, busy).tolist() == [True, False, True]


def test_phases_are_every_bth_pixel_and_weave_back() -> None:
    crops = np.arange(2 * 6 * 6 * 3).reshape(2, 6, 6, 3)
    phases = neural_boost.to_phases(crops, 2)
    assert phases.shape == (18, 2, 2, 3)
    for row in range(3):
        for column in range(3):
            np.testing.assert_array_equal(phases[row * 3 + column], crops[0, row::3, column::3])
    np.testing.assert_array_equal(neural_boost.from_phases(phases, 6), crops)
    with pytest.raises(RecipeError, match="multiple of 4"):
        neural_boost.to_phases(crops, 4)


def test_lengths_of_the_two_ways_to_use_the_matrix() -> None:
    contract = CATALOGUE.spec("inswapper-128").input("source")
    unit = contract.model_copy(update={"normalise": "unit"})
    raw = np.random.default_rng(0).normal(size=512).astype(np.float32) * 20
    published, normed = (embedding_source(raw, how, emap=emap()) for how in (contract, unit))
    assert np.linalg.norm(published) == pytest.approx(2, rel=1e-5)  # the matrix doubles
    assert np.linalg.norm(normed) == pytest.approx(1, rel=1e-5)
    np.testing.assert_allclose(published / 2, normed, atol=1e-6)
    with pytest.raises(RecipeError, match="empty"):
        embedding_source(np.zeros(512, np.float32), contract)


def test_the_matrix_is_read_once_and_kept_beside_the_file(tmp_path: Path) -> None:
    path = tmp_path / "inswapper.onnx"
    path.write_bytes(stand_in(CATALOGUE.spec("inswapper-128")))
    np.testing.assert_array_equal(read_emap(path), emap())
    path.write_bytes(b"not read again")
    np.testing.assert_array_equal(read_emap(path), emap())
    other = tmp_path / "gfpgan.onnx"
    other.write_bytes(stand_in(CATALOGUE.spec("gfpgan-1.4")))
    with pytest.raises(RecipeError, match="square matrix"):
        read_emap(other)


def test_the_weight_slider_moves_along_the_line_from_target_to_source(open_stand_ins: Opener) -> None:
    source, target = np.float32([[1, 0]]), np.float32([[0, 1]])
    np.testing.assert_allclose(weighted(source, target, 0.5), source)
    np.testing.assert_allclose(weighted(source, target, 0), [[0.65, 0.35]])
    np.testing.assert_allclose(weighted(source, target, 1), [[1.35, -0.35]])
    models = open_stand_ins("inswapper-128", "ghost-1-256")
    swapper = EmbeddingSwapper(models, "inswapper-128", weight=1)
    own, other = swapper.source(identity(1)), swapper.source(identity(2))
    np.testing.assert_allclose(swapper.weighted_source(own, identity(2)), own * 1.35 - other * 0.35, atol=1e-6)
    with pytest.raises(RecipeError, match="no such slider"):
        EmbeddingSwapper(models, "ghost-1-256", weight=1)


def test_sources_are_prepared_once_and_the_oldest_is_forgotten() -> None:
    made: list[str] = []

    def make(name: str) -> np.ndarray:
        made.append(name)
        return np.float32([[len(made)]])

    cache = SourceCache(size=2)
    for name in ("a", "b", "a", "c", "a", "b"):
        cache.get((name, "model"), lambda name=name: make(name))
    assert made == ["a", "b", "c", "b"]


def test_a_missing_crop_is_named(open_stand_ins: Opener) -> None:
    models = open_stand_ins("uniface-256")
    swapper = open_swapper(models, models.catalogue.spec("uniface-256"))
    with pytest.raises(RecipeError, match="no ffhq_512 crop of 256 px"):
        swapper.source(SourceFace(crops={}, digest="x"))


def test_settings_that_a_restorer_does_not_have_are_refused(open_stand_ins: Opener) -> None:
    models = open_stand_ins("gfpgan-1.4", "codeformer")
    with pytest.raises(RecipeError, match="no fidelity"):
        Restorer(models, "gfpgan-1.4", fidelity=0.5)
    with pytest.raises(RecipeError, match=r"blend is 1\.5"):
        Restorer(models, "gfpgan-1.4", blend=1.5)
    assert Restorer(models, "codeformer", fidelity=0.9).blend == 0.8


def test_tiles_of_the_bundled_upscaler_meet_within_a_tenth_of_an_8_bit_step() -> None:
    rows, columns = np.mgrid[0:120, 0:150] / 40
    waves = np.stack([np.sin(rows * 7 + columns), np.cos(columns * 9), np.sin(rows * columns * 5)], 2)
    picture = (waves * 0.4 + 0.5).astype(np.float32)
    with Models(CATALOGUE) as models:
        whole = Upscaler(models, "span-x2", tile=256, overlap=16).upscale(picture)
        tiled = Upscaler(models, "span-x2", tile=96, overlap=24).upscale(picture)
    assert whole.shape == (240, 300, 3)
    inside = np.s_[:200, :260]  # what is mirrored outwards differs with the tile, near the lower and right edges
    assert np.abs(whole - tiled)[inside].max() < 0.1 / 255


def test_masks_combine_to_the_least_and_soften_inwards() -> None:
    box = box_mask(128)
    assert box.shape == (1, 128, 128)
    assert box[0, 64, 64] == 1
    assert box[0, 0].max() < 0.1
    assert box_mask(100, blur=0, padding=(10, 0, 0, 20))[0, :10].max() == 0
    hard = np.zeros((1, 64, 64), np.float32)
    hard[:, 16:48, 16:48] = 1
    soft = eroded_blur(hard)
    assert soft[0, 32, 32] > 0.99
    assert soft[hard == 0].max() < 0.05, "nothing leaks out of the mask"
    assert np.array_equal(combined([box[:, :64, :64], hard]), np.minimum(box[:, :64, :64], hard))
