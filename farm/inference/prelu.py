"""PReLU as operators that ONNX Runtime's processor kernels keep in their blocked layout.

Its own PReLU kernel knows the plain layout only: every one costs two changes of layout and an unvectorised pass, more
than half of what a network of small convolutions takes. With slopes a the same is (1 - a) · max(x, 0) + a · x: a ReLU
and two 1×1 depthwise convolutions, of which the second adds the first. Only rounding differs. Graphics cards have a
PReLU of their own and keep the graph as it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def without_prelu(data: bytes) -> bytes | None:
    """The ONNX graph `data` rewritten, or None where there is nothing to rewrite.

    Rewritten are PReLUs over pictures (n, c, h, w) in single precision with one constant slope a channel. A graph whose
    weights lie in files beside it is left alone.
    """
    if b"PRelu" not in data:
        return None
    import onnx

    model = onnx.load_from_string(data)
    if any(tensor.data_location == onnx.TensorProto.EXTERNAL for tensor in model.graph.initializer):
        return None
    slopes = _constants(model.graph, {node.input[1] for node in model.graph.node if node.op_type == "PRelu"})
    channels = _channels(model)
    nodes: list[Any] = []
    for node in model.graph.node:
        slope = slopes.get(node.input[1]) if node.op_type == "PRelu" else None
        if slope is None or slope.shape[-3:] != (channels.get(node.input[0]), 1, 1):
            nodes.append(node)
        else:
            nodes += _split(model.graph, node, slope.reshape(-1, 1, 1, 1))
    if len(nodes) == len(model.graph.node):
        return None
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return bytes(model.SerializeToString())


def _split(graph: Any, node: Any, slope: Array) -> list[Any]:
    from onnx import helper, numpy_helper

    x, y = node.input[0], node.output[0]
    above, below, scaled_above, scaled = (f"{y}/{name}" for name in ("above", "below", "scaled_above", "scaled"))
    graph.initializer.append(numpy_helper.from_array(np.float32(1) - slope, above))
    graph.initializer.append(numpy_helper.from_array(slope, below))
    count = len(slope)
    return [
        helper.make_node("Relu", [x], [f"{y}/relu"]),
        helper.make_node("Conv", [f"{y}/relu", above], [scaled_above], group=count, kernel_shape=[1, 1]),
        helper.make_node("Conv", [x, below], [scaled], group=count, kernel_shape=[1, 1]),
        helper.make_node("Add", [scaled_above, scaled], [y]),
    ]


def _constants(graph: Any, names: set[str]) -> dict[str, Array]:
    """The values of those of `names` that are float32 weights, or weights of half precision cast to it."""
    from onnx import numpy_helper

    weights = {tensor.name: tensor for tensor in graph.initializer}
    cast = {node.output[0]: node.input[0] for node in graph.node if node.op_type == "Cast"}
    found = {}
    for name in names:
        weight = weights.get(cast.get(name, name))
        if weight is not None:
            found[name] = numpy_helper.to_array(weight).astype(np.float32)
    return found


def _channels(model: Any) -> dict[str, int]:
    """c of the tensors (n, c, h, w) in single precision."""
    import onnx

    graph = onnx.shape_inference.infer_shapes(model).graph
    types = {value.name: value.type.tensor_type for value in (*graph.input, *graph.value_info, *graph.output)}
    single = onnx.TensorProto.FLOAT
    return {
        name: int(kind.shape.dim[1].dim_value)
        for name, kind in types.items()
        if kind.elem_type == single and len(kind.shape.dim) == 4
    }
