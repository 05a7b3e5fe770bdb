"""The bundled weights in real ONNX Runtime sessions, on the public-domain portrait where a face is needed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from farm.errors import InputError, PolicyError, RecipeError
from farm.inference.catalogue import Catalogue
from farm.inference.library import ModelLibrary
from farm.inference.session import Models
from farm.inference.spec import ModelSpec, Tensor

CATALOGUE = Catalogue.load()
BUNDLED = [
    pytest.param(spec, precision, id=f"{spec.name}-{precision}")
    for spec in CATALOGUE
    if spec.bundled
    for precision in spec.files
]


@pytest.fixture(scope="module")
def models() -> Iterator[Models]:
    with Models(CATALOGUE) as loaded:
        yield loaded


def sample(tensor: Tensor, shape: tuple[int, ...], seed: int = 0) -> Any:
    low, high = tensor.range
    return np.random.default_rng(seed).uniform(low, high, shape).astype(tensor.dtype)


@pytest.mark.parametrize(("spec", "precision"), BUNDLED)
def test_each_runs_at_its_tested_shapes_the_same_twice(models: Models, spec: ModelSpec, precision: str) -> None:
    model = models.load(spec.name, precision)
    assert model.provider == "CPUExecutionProvider"
    for shape in spec.runtime.tested_shapes:
        feed = {spec.inputs[0].name: sample(spec.inputs[0], shape)}
        first, second = model.run(**feed), model.run(**feed)
        for tensor in spec.outputs:
            assert first[tensor.name].ndim == len(tensor.shape)
            assert np.isfinite(first[tensor.name]).all()
            assert np.array_equal(first[tensor.name], second[tensor.name])


@pytest.mark.parametrize(("spec", "precision"), BUNDLED)
def test_the_number_of_threads_changes_no_bit(models: Models, spec: ModelSpec, precision: str) -> None:
    feed = {spec.inputs[0].name: sample(spec.inputs[0], spec.runtime.tested_shapes[0])}
    with Models(CATALOGUE, threads=2) as more:
        found = more.load(spec.name, precision).run(**feed)
    for name, expected in models.load(spec.name, precision).run(**feed).items():
        assert np.array_equal(found[name], expected), name


def test_a_batch_is_the_singles_put_together_for_fixed_and_for_free_graphs(models: Models) -> None:
    for name in ("sface", "face-landmarks-478"):
        model = models.load(name)
        tensor = model.spec.inputs[0]
        batch = sample(tensor, (3, *(int(n) for n in tensor.shape[1:])))
        together = model.run_batch(**{tensor.name: batch})
        for output in model.spec.outputs:
            singles = np.concatenate([model.run(**{tensor.name: batch[i : i + 1]})[output.name] for i in range(3)])
            np.testing.assert_allclose(together[output.name], singles, rtol=1e-4, atol=1e-3)


def test_fp16_landmarks_are_those_of_fp32(models: Models) -> None:
    feed = {"input_12": sample(CATALOGUE.spec("face-landmarks-478").inputs[0], (1, 256, 256, 3))}
    whole = models.load("face-landmarks-478", "fp32").run(**feed)["Identity"]
    half = models.load("face-landmarks-478", "fp16").run(**feed)["Identity"]
    assert np.abs(whole - half).max() < 1.0  # pixels of a 256 px crop, on noise


def test_two_threads_get_what_one_gets(models: Models) -> None:
    model = models.load("sface")
    feeds = [sample(model.spec.inputs[0], (1, 3, 112, 112), seed) for seed in range(4)]
    alone = [model.run(data=feed)["fc1"] for feed in feeds]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda feed: model.run(data=feed)["fc1"], feeds * 3))
    for found, expected in zip(together, alone * 3, strict=True):
        assert np.array_equal(found, expected)


def test_memory_stays_flat_over_runs_from_ever_new_threads(models: Models) -> None:
    model = models.load("yunet")
    feed = sample(model.spec.inputs[0], (1, 3, 640, 640))

    def run_in_new_thread() -> None:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(model.run, input=feed).result()

    process = psutil.Process(os.getpid())
    for _ in range(10):
        run_in_new_thread()
    before = process.memory_info().rss
    for _ in range(60):
        run_in_new_thread()
    assert process.memory_info().rss - before < 16 * 2**20


def test_the_record_says_what_was_asked_for_and_what_runs() -> None:
    with Models(CATALOGUE, providers=["auto"]) as models:
        models.load("yunet")
        (use,) = models.used()
    assert use.requested[0] == "TensorrtExecutionProvider"
    assert use.requested[-1] == "CPUExecutionProvider"
    assert use.actual in use.requested
    skipped = {skip.provider for skip in use.skipped}
    assert skipped == set(use.requested[: use.requested.index(use.actual)])
    assert all(skip.why for skip in use.skipped)
    assert use.as_dict()["sha256"] == CATALOGUE.spec("yunet").file().sha256


def test_wrong_inputs_are_named(models: Models) -> None:
    model = models.load("sface")
    with pytest.raises(RecipeError, match=r"unknown \['picture'\], missing \['data'\]"):
        model.run(picture=np.zeros((1, 3, 112, 112)))
    with pytest.raises(RecipeError, match="shape"):
        model.run(data=np.zeros((1, 3, 100, 112)))


def test_a_built_in_processor_has_nothing_to_load(models: Models) -> None:
    models.check("mesh-warp")
    with pytest.raises(RecipeError, match="built in"):
        models.load("mesh-warp")
    with pytest.raises(RecipeError, match="no int8 weights"):
        models.load("yunet", "int8")


def operator_entry(folder: Path, *, sha256: str, name: str = "mine") -> Catalogue:
    """A catalogue with YuNet's entry under another name and checksum."""
    source = (CATALOGUE.folder("yunet") / "yunet.toml").read_text()
    known = CATALOGUE.spec("yunet").file().sha256 or ""
    text = source.replace('name = "yunet"', f'name = "{name}"').replace("bundled = true", "")
    (folder / f"{name}.toml").write_text(text.replace(f'sha256 = "{known}"', sha256))
    (folder / "licences").mkdir()
    return Catalogue.read(folder)


def test_weights_with_another_checksum_never_run(tmp_path: Path) -> None:
    catalogue = operator_entry(tmp_path, sha256=f'sha256 = "{"0" * 64}"')
    library = ModelLibrary(catalogue, tmp_path / "home")
    place = library.location(catalogue.spec("mine").file())
    assert place is not None
    place.parent.mkdir(parents=True)
    place.write_bytes((CATALOGUE.folder("yunet") / "weights" / "yunet_2023mar_fp32.onnx").read_bytes())
    with Models(catalogue, library=library) as models, pytest.raises(InputError, match="they are not used"):
        models.load("mine")


def test_weights_without_a_known_checksum_never_run(tmp_path: Path) -> None:
    catalogue = operator_entry(tmp_path, sha256="")
    with Models(catalogue, home=tmp_path) as models, pytest.raises(PolicyError, match="knows no checksum"):
        models.load("mine")
