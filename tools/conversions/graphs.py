"""Small rewrites of ONNX graphs that every conversion shares."""

from __future__ import annotations

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from tools.conversions.order import merge_reshapes, order_nodes

OPSET = 17
IR_VERSION = 8

_SMALL = 256
"""Weights with fewer numbers stay in fp32: biases and scales are small and matter."""


def constants(model: onnx.ModelProto) -> dict[str, NDArray]:
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}


def set_constants(model: onnx.ModelProto, values: dict[str, NDArray]) -> None:
    """Replace the initializers by those of `values` that a node uses."""
    used = {name for node in model.graph.node for name in node.input}
    del model.graph.initializer[:]
    model.graph.initializer.extend(numpy_helper.from_array(values[name], name) for name in values if name in used)


def store_half(model: onnx.ModelProto) -> onnx.ModelProto:
    """Keep large fp32 weights as fp16, each behind a Cast back to fp32: half the file, and the arithmetic of fp32.

    Runtimes fold the casts when they load the file, so that nothing is slower for it, as fp16 graphs are on a CPU.
    """
    casts = []
    for tensor in model.graph.initializer:
        values = numpy_helper.to_array(tensor)
        if values.dtype != np.float32 or values.size < _SMALL:
            continue
        name = tensor.name
        tensor.CopyFrom(numpy_helper.from_array(values.astype(np.float16), f"{name}_half"))
        casts.append(helper.make_node("Cast", [f"{name}_half"], [name], to=TensorProto.FLOAT))
    nodes = [*casts, *model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model


def canonical(model: onnx.ModelProto) -> bytes:
    """The model's bytes with everything taken out that changes from run to run: order, repetitions and names of nodes
    and inner tensors, inferred shapes, unused operator sets. Inputs and outputs keep their names; free axes that a tool
    numbered are called N.
    """
    merge_reshapes(model)
    order_nodes(model)
    fixed = {value.name for value in (*model.graph.input, *model.graph.output)}
    renamed: dict[str, str] = {}

    def rename(name: str) -> str:
        if name == "" or name in fixed:
            return name
        return renamed.setdefault(name, f"t{len(renamed)}")

    for node in model.graph.node:
        if any(attribute.HasField("g") for attribute in node.attribute):
            raise ValueError(f"{node.op_type} holds a graph of its own; renaming would break it")
        node.name = ""
        node.doc_string = ""
        node.input[:] = [rename(name) for name in node.input]
        node.output[:] = [rename(name) for name in node.output]
    for tensor in model.graph.initializer:
        tensor.name = rename(tensor.name)
        tensor.doc_string = ""
    model.graph.initializer.sort(key=lambda tensor: int(tensor.name[1:]) if tensor.name not in fixed else -1)
    for value in (*model.graph.input, *model.graph.output):
        value.doc_string = ""
        for axis in value.type.tensor_type.shape.dim:
            if axis.dim_param.startswith("unk__"):
                axis.dim_param = "N"
    del model.graph.value_info[:]
    del model.metadata_props[:]
    model.doc_string = model.graph.doc_string = ""
    model.graph.name = "main"
    domains = {node.domain for node in model.graph.node}
    kept = [opset for opset in model.opset_import if opset.domain in domains]
    del model.opset_import[:]
    model.opset_import.extend(kept)
    onnx.checker.check_model(model)
    return model.SerializeToString(deterministic=True)
