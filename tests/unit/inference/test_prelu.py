"""PReLU as ReLU and depthwise convolutions: the same numbers, and only where it is known to be."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from farm.inference.prelu import without_prelu
from farm.inference.session import runtime

SLOPES = np.array([0.25, -0.5, 1.5], np.float32).reshape(3, 1, 1)


def network(shape: list[int], slope: np.ndarray, *, stored_half: bool = False) -> bytes:
    """x → PReLU → y, its slope a weight, or one of half precision that is cast."""
    nodes = [helper.make_node("PRelu", ["x", "slope"], ["y"])]
    weight = numpy_helper.from_array(slope, "slope")
    if stored_half:
        nodes.insert(0, helper.make_node("Cast", ["stored"], ["slope"], to=TensorProto.FLOAT))
        weight = numpy_helper.from_array(slope.astype(np.float16), "stored")
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def result(data: bytes, x: np.ndarray) -> Any:
    return runtime().InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]


@pytest.mark.parametrize("stored_half", [False, True])
def test_the_rewritten_graph_says_the_same(stored_half: bool) -> None:
    data = network([2, 3, 5, 4], SLOPES, stored_half=stored_half)
    rewritten = without_prelu(data)
    assert rewritten is not None
    assert "PRelu" not in {node.op_type for node in onnx.load_from_string(rewritten).graph.node}
    x = np.random.default_rng(1).normal(scale=10, size=(2, 3, 5, 4)).astype(np.float32)
    np.testing.assert_allclose(result(rewritten, x), result(data, x), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("shape", "slope"),
    [([2, 3], SLOPES.reshape(3)), ([1, 3, 5, 4], np.full((1, 1, 1), 0.1, np.float32))],
    ids=["no picture", "one slope for all channels"],
)
def test_other_uses_are_left_alone(shape: list[int], slope: np.ndarray) -> None:
    assert without_prelu(network(shape, slope)) is None


def test_a_graph_without_prelu_is_left_alone() -> None:
    assert without_prelu(b"anything else") is None
