"""One form for equal graphs: tf2onnx numbers, orders and merges nodes a little differently from run to run."""

from __future__ import annotations

import hashlib

import onnx
from onnx import numpy_helper


def merge_reshapes(model: onnx.ModelProto) -> None:
    """Reshape of a Reshape becomes one, where the last says every size; one that changes nothing is passed by."""
    made = {node.output[0]: node for node in model.graph.node if node.op_type == "Reshape"}
    sizes = {tensor.name: numpy_helper.to_array(tensor).tolist() for tensor in model.graph.initializer}
    shapes = _shapes(model)
    outputs = {value.name for value in model.graph.output}
    passed: dict[str, str] = {}
    for node in model.graph.node:
        node.input[:] = [passed.get(name, name) for name in node.input]
        if node.op_type != "Reshape" or not all(size > 0 for size in sizes.get(node.input[1], [0])):
            continue
        while node.input[0] in made:
            node.input[0] = made[node.input[0]].input[0]
        if shapes.get(node.input[0]) == sizes[node.input[1]] and node.output[0] not in outputs:
            passed[node.output[0]] = node.input[0]


def _shapes(model: onnx.ModelProto) -> dict[str, list[int]]:
    """The sizes of every tensor whose sizes are all known."""
    graph = onnx.shape_inference.infer_shapes(model).graph
    found = {
        value.name: [axis.dim_value for axis in value.type.tensor_type.shape.dim]
        for value in (*graph.input, *graph.value_info, *graph.output)
    }
    return {name: shape for name, shape in found.items() if all(shape)}


def order_nodes(model: onnx.ModelProto) -> None:
    """Drop what leads nowhere and what is computed twice, and put the rest in an order that only the sums decide."""
    identity = _identities(model)
    chosen: dict[str, str] = {}
    for name, digest in identity.items():
        chosen.setdefault(digest, name)
    fixed = {value.name for value in model.graph.output}
    for node in model.graph.node:
        node.input[:] = [chosen[identity[name]] if name and name not in fixed else name for name in node.input]
    producer = {name: node for node in model.graph.node for name in node.output}
    ordered: list[onnx.NodeProto] = []
    done: set[str] = set()

    def visit(name: str) -> None:
        node = producer.get(name)
        if node is None or node.output[0] in done:
            return
        done.add(node.output[0])
        for source in node.input:
            visit(source)
        ordered.append(node)

    for value in model.graph.output:
        visit(value.name)
    kept = [onnx.NodeProto.FromString(node.SerializeToString()) for node in ordered]
    used = {name for node in kept for name in node.input}
    weights = [tensor for tensor in model.graph.initializer if tensor.name in used]
    del model.graph.node[:]
    model.graph.node.extend(kept)
    del model.graph.initializer[:]
    model.graph.initializer.extend(weights)


def _identities(model: onnx.ModelProto) -> dict[str, str]:
    """For every tensor a digest of how it is computed, down to weights and inputs."""
    found = {value.name: f"input {value.name}" for value in model.graph.input}
    for tensor in model.graph.initializer:
        values = numpy_helper.to_array(tensor)
        found[tensor.name] = _digest(values.tobytes() + f"{values.dtype} {values.shape}".encode())
    for node in model.graph.node:
        settings = b"".join(sorted(attribute.SerializeToString(deterministic=True) for attribute in node.attribute))
        sources = " ".join(found.get(name, "") for name in node.input)
        digest = _digest(f"{node.domain} {node.op_type} {sources} ".encode() + settings)
        found |= {name: f"{digest} {index}" for index, name in enumerate(node.output)}
    return found


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
