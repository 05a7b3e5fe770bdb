"""A network computed in half precision, its inputs and outputs as they were."""

from __future__ import annotations

from typing import Any

import numpy as np

from farm.inference.bound import Source

_KEPT = {"Resize": (1, 2, 3), "Reshape": (1,), "Slice": (1, 2, 3, 4), "Pad": (1, 3)}
"""Inputs of an operator that are no picture data and keep their type."""
_WEIGHTED = ("Conv", "Gemm", "MatMul")


def half_bytes(source: Source, *, heads: bool = False) -> bytes:
    """The ONNX graph of `source` with half-precision weights and arithmetic between casts at its edges.

    heads: the last weighted operator before each output, and what follows it, stay in single precision. An output that
    counts in hundreds of pixels cannot be written in half precision to better than an eighth of one.
    For graphs of convolutions, activations, pooling, sums and reshapes; casts inside the graph are not looked at.
    """
    import onnx

    model = onnx.load_from_string(source) if isinstance(source, bytes) else onnx.load(str(source))
    graph = model.graph
    single = _heads(graph) if heads else set()
    _halve_weights(graph, single)
    nodes = _bridged(graph, {value.name for value in graph.input} | single, single)
    for value in graph.output:
        if value.name not in single:
            nodes = [*_renamed(nodes, value.name), _cast(f"{value.name}/half", value.name, onnx.TensorProto.FLOAT)]
    del graph.node[:]
    graph.node.extend(nodes)
    del graph.value_info[:]
    return bytes(model.SerializeToString(deterministic=True))


def _halve_weights(graph: Any, single: set[str]) -> None:
    from onnx import TensorProto, numpy_helper

    kept = {
        node.input[place]
        for node in graph.node
        for place in _KEPT.get(node.op_type, ())
        if place < len(node.input) and node.input[place]
    } | {name for node in graph.node if node.output[0] in single for name in node.input}
    for weight in graph.initializer:
        if weight.data_type == TensorProto.FLOAT and weight.name not in kept:
            weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight).astype(np.float16), weight.name))


def _bridged(graph: Any, floats: set[str], single: set[str]) -> list[Any]:
    """The nodes with a cast, once, wherever one reads a tensor of the other precision; `floats` are single ones."""
    from onnx import TensorProto

    constants = {weight.name for weight in graph.initializer}
    casts: set[str] = set()
    nodes: list[Any] = []
    for node in graph.node:
        wanted = node.output[0] in single
        for place, name in enumerate(node.input):
            if not name or name in constants or (name in floats) == wanted:
                continue
            if name not in casts:
                casts.add(name)
                nodes.append(_cast(name, f"{name}/cast", TensorProto.FLOAT if wanted else TensorProto.FLOAT16))
            node.input[place] = f"{name}/cast"
        nodes.append(node)
    return nodes


def _renamed(nodes: list[Any], old: str) -> list[Any]:
    """The nodes, with the tensor `old` called otherwise."""
    for node in nodes:
        for names in (node.input, node.output):
            for place, name in enumerate(names):
                names[place] = f"{old}/half" if name == old else name
    return nodes


def _cast(given: str, made: str, to: int) -> Any:
    from onnx import helper

    return helper.make_node("Cast", [given], [made], to=to)


def _heads(graph: Any) -> set[str]:
    """Names of what is made from the last weighted operator before each output on, outputs included."""
    maker = {name: node for node in graph.node for name in node.output}
    found: set[str] = set()
    waiting = [value.name for value in graph.output]
    while waiting:
        name = waiting.pop()
        node = maker.get(name)
        if node is None or name in found:
            continue
        found.update(node.output)
        if node.op_type not in _WEIGHTED:
            waiting.extend(node.input)
    return found
