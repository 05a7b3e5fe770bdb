"""A network computed in half precision, its inputs and outputs as they were: for rough first looks. Needs `onnx`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

_KEPT = {"Resize": (1, 2, 3), "Reshape": (1,), "Slice": (1, 2, 3, 4), "Pad": (1, 3)}
"""Inputs of an operator that are no picture data and keep their type."""


def half_bytes(path: Path) -> bytes:
    """The ONNX graph at `path` with half-precision weights and arithmetic between casts at its edges.

    For graphs of convolutions, activations, pooling, sums and reshapes; casts inside the graph are not looked at.
    """
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    model = onnx.load(str(path))
    graph = model.graph
    kept = {
        node.input[place]
        for node in graph.node
        for place in _KEPT.get(node.op_type, ())
        if place < len(node.input) and node.input[place]
    }
    for weight in graph.initializer:
        if weight.data_type == TensorProto.FLOAT and weight.name not in kept:
            weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight).astype(np.float16), weight.name))
    inside = {value.name: f"{value.name}/half" for value in (*graph.input, *graph.output)}
    for node in graph.node:
        for names in (node.input, node.output):
            for place, name in enumerate(names):
                names[place] = inside.get(name, name)
    before: list[Any] = [
        helper.make_node("Cast", [value.name], [inside[value.name]], to=TensorProto.FLOAT16) for value in graph.input
    ]
    after = [helper.make_node("Cast", [inside[v.name]], [v.name], to=TensorProto.FLOAT) for v in graph.output]
    nodes = [*before, *graph.node, *after]
    del graph.node[:]
    graph.node.extend(nodes)
    del graph.value_info[:]
    return bytes(model.SerializeToString(deterministic=True))
