"""The build-time rewrites, on graphs small enough to know the answer."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from farm.errors import RecipeError
from farm.inference.rebatch import free_batch, same_on_each
from farm.inference.session import runtime
from tools.conversions import folded, mesh, ncnn
from tools.conversions.graphs import canonical, store_half


def session(model: onnx.ModelProto | bytes) -> object:
    data = model if isinstance(model, bytes) else model.SerializeToString()
    return runtime().InferenceSession(data, providers=["CPUExecutionProvider"])


def graph(
    nodes: list[onnx.NodeProto], inputs: dict, outputs: dict, constants: dict, opset: int = 17
) -> onnx.ModelProto:
    def values(shapes: dict) -> list[onnx.ValueInfoProto]:
        return [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]

    weights = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    made = helper.make_graph(nodes, "g", values(inputs), values(outputs), weights)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def test_blocked_weights_fold_to_scale_times_quantised() -> None:
    quantised = np.array([[1, 2, 3], [4, 5, 6]], np.int8)
    constants = {"q": quantised, "s": np.array([[0.5], [2.0]], np.float32).T, "z": np.array([[1, 0]], np.int8)}
    nodes = [
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["w"], axis=1, block_size=2),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    constants["s"] = np.array([[0.5, 2.0], [1.0, 10.0]], np.float32)
    constants["z"] = np.array([[1, 0], [0, 0]], np.int8)
    model = graph(nodes, {"x": [1, 2], "s": [2, 2]}, {"y": [1, 3]}, constants, opset=21)
    done = folded.fold(model.SerializeToString())
    assert [value.name for value in done.graph.input] == ["x"], "weights are no inputs"
    (out,) = session(done).run(None, {"x": np.ones((1, 2), np.float32)})
    np.testing.assert_allclose(out, [[0 + 4, 0.5 + 5, 6 + 60]])


NCNN = """7767517
5 5
Input       in    0 1 data
MemoryData  mean  0 1 mean 0=1 1=1 2=3
BinaryOp    sub   2 1 data mean centred 0=1
Convolution conv  1 1 centred wide 0=4 1=1 5=1 6=12
PixelShuffle ps   1 1 wide output 0=2
"""


def ncnn_weights() -> bytes:
    mean = np.array([0.25, 0.5, 0.75], np.float32).tobytes()
    kernel = (
        struct.pack("<I", 0x01306B47) + np.array([[1, 0, 0], [0, 2, 0], [0, 0, 4], [4, 2, 4]], np.float16).tobytes()
    )
    return mean + kernel + np.array([0, 0, 0, 10], np.float32).tobytes()


def test_ncnn_layers_become_the_same_sums() -> None:
    out = session(ncnn.convert(NCNN, ncnn_weights(), scale=2)).run(None, {"data": np.ones((1, 3, 1, 1), np.float32)})[0]
    np.testing.assert_allclose(out[0, 0], [[0.75, 1.0], [1.0, 15.0]])


@pytest.mark.parametrize(
    ("param", "weights", "says"),
    [
        (NCNN, ncnn_weights() + b"1234", "4 bytes of weights were not used"),
        (NCNN.replace("PixelShuffle", "Softmax"), ncnn_weights(), "Softmax is not known"),
        (NCNN.replace("7767517", "1"), ncnn_weights(), "not an ncnn"),
        (NCNN.replace("wide output", "wide other"), ncnn_weights(), "not the output"),
    ],
)
def test_ncnn_files_that_are_not_understood_are_refused(param: str, weights: bytes, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        ncnn.convert(param, weights, scale=2)


def renamed(prefix: str) -> onnx.ModelProto:
    nodes = [
        helper.make_node("Mul", ["x", f"{prefix}w"], [f"{prefix}a"], name=f"{prefix}n"),
        helper.make_node("Add", [f"{prefix}a", f"{prefix}v"], ["y"]),
    ]
    constants = {f"{prefix}v": np.float32([2]), f"{prefix}w": np.float32([3])}
    if prefix == "b":
        constants = dict(reversed(constants.items()))
    return graph(nodes, {"x": [f"unk__{ord(prefix)}", 1]}, {"y": [f"unk__{ord(prefix)}", 1]}, constants)


def test_canonical_bytes_do_not_depend_on_inner_names_or_order() -> None:
    first, second = canonical(renamed("a")), canonical(renamed("b"))
    assert first == second
    (out,) = session(first).run(None, {"x": np.float32([[4]])})
    assert out == [[14]]
    assert session(first).get_inputs()[0].shape == ["N", 1]


def test_canonical_bytes_do_not_depend_on_order_repetitions_or_idle_reshapes() -> None:
    tidy = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Reshape", ["r", "three"], ["s"]),
        helper.make_node("Neg", ["x"], ["n"]),
        helper.make_node("Add", ["s", "n"], ["y"]),
    ]
    untidy = [
        helper.make_node("Reshape", ["x", "same"], ["idle"]),
        helper.make_node("Neg", ["idle"], ["n"]),
        helper.make_node("Relu", ["idle"], ["r"]),
        helper.make_node("Relu", ["x"], ["again"]),
        helper.make_node("Abs", ["again"], ["nobody_needs"]),
        helper.make_node("Reshape", ["again", "flat"], ["f"]),
        helper.make_node("Reshape", ["f", "three"], ["s"]),
        helper.make_node("Add", ["s", "n"], ["y"]),
    ]
    sizes = {"three": np.array([1, 3]), "flat": np.array([3]), "same": np.array([3, 1])}
    made = [graph(nodes, {"x": [3, 1]}, {"y": [3, 3]}, sizes) for nodes in (tidy, untidy)]
    given = {"x": np.float32([[-1], [2], [3]])}
    answers = [session(model).run(None, given)[0] for model in made]
    first, second = (canonical(model) for model in made)
    assert first == second
    np.testing.assert_array_equal(session(first).run(None, given)[0], answers[1])
    np.testing.assert_array_equal(answers[0], answers[1])


def test_weights_stored_in_half_compute_in_full_and_small_ones_stay() -> None:
    weight = np.linspace(-2, 2, 400, dtype=np.float32).reshape(20, 20)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("Add", ["a", "b"], ["y"])]
    bias = np.full(20, 0.1, np.float32)
    model = store_half(graph(nodes, {"x": [1, 20]}, {"y": [1, 20]}, {"w": weight, "b": bias}))
    kinds = sorted(tensor.data_type for tensor in model.graph.initializer)
    assert kinds == [TensorProto.FLOAT, TensorProto.FLOAT16]
    given = np.ones((1, 20), np.float32) / 3
    (out,) = session(canonical(model)).run(None, {"x": given})
    np.testing.assert_allclose(out, given @ weight.astype(np.float16).astype(np.float32) + bias, rtol=1e-6, atol=1e-6)


def fixed_batch(between: list[int]) -> onnx.ModelProto:
    nodes = [
        helper.make_node("Mul", ["x", "k"], ["a"]),
        helper.make_node("Reshape", ["a", "between"], ["b"]),
        helper.make_node("Reshape", ["b", "last"], ["y"]),
    ]
    constants = {"k": np.float32([2]), "between": np.array(between, np.int64), "last": np.array([1, 6], np.int64)}
    return graph(nodes, {"x": [1, 2, 3]}, {"y": [1, 6]}, constants)


def test_a_graph_of_batch_one_takes_any_batch_afterwards() -> None:
    single = fixed_batch([1, 3, 2])
    freed = session(free_batch(single))
    feeds = [{"x": np.full((1, 2, 3), k, np.float32)} for k in range(3)]
    assert same_on_each(session(single), freed, feeds) == 0
    assert freed.get_outputs()[0].shape[0] == "N"


def test_a_rewrite_that_changes_results_is_refused() -> None:
    other = fixed_batch([1, 3, 2])
    other.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.float32([3]), "k"))
    feeds = [{"x": np.ones((1, 2, 3), np.float32)}]
    with pytest.raises(RecipeError, match="y differs by"):
        same_on_each(session(fixed_batch([1, 3, 2])), session(free_batch(other)), feeds)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: fixed_batch([2, 3]), "mixes the batch"),
        (lambda: graph([], {"x": [4, 2]}, {"x": [4, 2]}, {}), "batch of 4"),
    ],
)
def test_graphs_whose_batch_cannot_be_freed_are_refused(make: Callable[[], onnx.ModelProto], says: str) -> None:
    with pytest.raises(RecipeError, match=says):
        free_batch(make())


def mesh_file() -> bytes:
    floats = np.arange(468 * 5, dtype=np.float32) / 10000
    body = b"".join(b"\x1d" + struct.pack("<f", value) for value in floats)
    indexes = [0, 1, 467, 300, 2, 3]
    coded = b"".join(b"\x20" + (bytes([i]) if i < 128 else bytes([i & 127 | 128, i >> 7])) for i in indexes)
    return b"\x0a\x02\x08\x01" + body + coded + b"\x2a\x00"


def test_the_mesh_file_gives_vertices_texture_coordinates_and_triangles() -> None:
    found = json.loads(mesh.convert(mesh_file()))
    assert len(found["vertices"]) == len(found["uv"]) == 468
    assert found["vertices"][1] == [0.0005, 0.0006, 0.0007]
    assert found["uv"][1] == [0.0008, round(1 - 0.0009, 6)]
    assert found["triangles"] == [[0, 1, 467], [300, 2, 3]]
    with pytest.raises(ValueError, match="no vertex buffer"):
        mesh.convert(b"\x00\x01" * 10000)
