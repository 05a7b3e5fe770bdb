"""int8 by calibration: built in a process of its own, kept by weights and samples, measured, and shared."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from farm.errors import InfrastructureError, RecipeError
from farm.inference.build import BuildProcess
from farm.inference.calibrated import Calibrator, Feed
from farm.inference.catalogue import Catalogue
from farm.inference.engines import EngineCache
from farm.inference.integrity import sha256_of
from farm.inference.opening import runtime
from farm.inference.spec import ModelSpec
from farm.store.memory import MemoryStore

Floats = NDArray[np.float32]


def named(digest: str) -> str:
    return f"jobs/1/networks/{digest}"


def network(path: Path, *, wild: bool = False) -> Path:
    """Two convolutions with an activation between; `wild` ones answer to one sample a thousand times as loud."""
    random = np.random.default_rng(1)
    first = random.normal(0, 0.3, (8, 3, 3, 3)).astype(np.float32)
    second = random.normal(0, 0.2, (3, 8, 3, 3)).astype(np.float32)
    if wild:
        first[0] *= 3000
        second[:, 0] /= 3000
    nodes = [
        helper.make_node("Conv", ["target", "first"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "second"], ["output"], pads=[1, 1, 1, 1]),
    ]
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 3, 32, 32]) for name in ("target", "output")]
    weights = [numpy_helper.from_array(first, "first"), numpy_helper.from_array(second, "second")]
    graph = helper.make_graph(nodes, "two", [value[0]], [value[1]], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    onnx.save(model, str(path))
    return path


def entry(path: Path) -> ModelSpec:
    spec = Catalogue.load().spec("inswapper-128")
    file = spec.files["fp32"].model_copy(update={"sha256": sha256_of(path)})
    return spec.model_copy(update={"files": {"fp32": file}})


def samples(count: int, seed: int = 0, scale: float = 1.0) -> list[Feed]:
    random = np.random.default_rng(seed)
    return [{"target": (random.random((1, 3, 32, 32)) * scale).astype(np.float32)} for _ in range(count)]


def test_a_network_is_quantised_measured_kept_and_shared(tmp_path: Path) -> None:
    weights, shelf = network(tmp_path / "full.onnx"), MemoryStore()
    said: list[str] = []
    calibrator = Calibrator(tmp_path / "here", shelf=shelf, name=named)
    made = calibrator.make(entry(weights), weights, samples(6), "output", beat=said.append)
    assert 0 < made.error < 0.02
    assert made.samples == 3
    assert "building engine" in said
    path = calibrator.find(made)
    assert path is not None
    kinds = {node.op_type for node in onnx.load(str(path)).graph.node}
    assert {"QuantizeLinear", "DequantizeLinear"} <= kinds

    # Another worker takes it from the shelf; the same samples build nothing again, others something else.
    other = Calibrator(tmp_path / "there", shelf=shelf, name=named, process=BuildProcess(command=("false",), tries=1))
    fetched = other.find(made)
    assert fetched is not None
    assert fetched.read_bytes() == path.read_bytes()
    assert other.make(entry(weights), weights, samples(6), "output") == made
    with pytest.raises(InfrastructureError):
        other.make(entry(weights), weights, samples(6, seed=9), "output")

    feed = samples(1, seed=5)[0]
    full, small = (
        runtime().InferenceSession(str(file), providers=["CPUExecutionProvider"]).run(None, feed)[0]
        for file in (weights, path)
    )
    assert 0 < np.abs(full - small).mean() < 0.02 * np.ptp(full)


def test_a_damaged_network_is_not_used(tmp_path: Path) -> None:
    weights = network(tmp_path / "full.onnx")
    calibrator = Calibrator(tmp_path / "here", shelf=None, name=named)
    made = calibrator.make(entry(weights), weights, samples(4), "output")
    path = calibrator.find(made)
    assert path is not None
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert calibrator.find(made) is None


def test_the_error_tells_of_a_calibration_that_did_not_fit(tmp_path: Path) -> None:
    weights = network(tmp_path / "full.onnx")
    fits = Calibrator(tmp_path / "here", shelf=None, name=named).make(entry(weights), weights, samples(4), "output")
    quiet, loud = samples(2), samples(2, scale=40.0)
    mixed = [quiet[0], loud[0], quiet[1], loud[1]]  # every other sample is kept back, and these are the loud ones
    off = Calibrator(tmp_path / "here", shelf=None, name=named).make(entry(weights), weights, mixed, "output")
    assert off.error > 5 * fits.error


def test_without_samples_and_with_a_hanging_builder_it_is_said(tmp_path: Path) -> None:
    weights = network(tmp_path / "full.onnx")
    with pytest.raises(RecipeError, match="No face of the plate"):
        Calibrator(tmp_path / "here", shelf=None, name=named).make(entry(weights), weights, [], "output")
    hangs = (sys.executable, "-c", "import time; time.sleep(600)")
    process = BuildProcess(timeout=0.3, tries=1, beat_seconds=0.1, command=hangs)
    with pytest.raises(InfrastructureError, match="it took too long"):
        Calibrator(tmp_path / "here", shelf=None, name=named, process=process).make(
            entry(weights), weights, samples(2), "output"
        )


def test_a_machine_keeps_the_newest_and_shares_with_every_job_what_it_has(tmp_path: Path) -> None:
    weights, shelf = network(tmp_path / "full.onnx"), MemoryStore()
    built = [
        Calibrator(tmp_path / "here", shelf=None, name=named).make(
            entry(weights), weights, samples(2, seed=n), "output"
        )
        for n in range(2)
    ]
    cache = EngineCache(tmp_path / "here")
    os.utime(tmp_path / "here" / built[0].key.digest(), (1, 1))
    cache.keep_newest(1)
    assert cache.get(built[0].key) is None
    assert cache.get(built[1].key) is not None
    again = Calibrator(tmp_path / "here", shelf=shelf, name=named, process=BuildProcess(command=("false",), tries=1))
    assert again.make(entry(weights), weights, samples(2, seed=1), "output") == built[1]
    assert shelf.head(named(built[1].key.digest())) is not None
