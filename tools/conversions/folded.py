"""Blocked int8 weights back to plain ones: ONNX Runtime refuses a blocked DequantizeLinear on 1-D weights."""

from __future__ import annotations

import numpy as np
import onnx
from numpy.typing import NDArray

from tools.conversions.graphs import IR_VERSION, OPSET, constants, set_constants


def fold(data: bytes) -> onnx.ModelProto:
    """Compute every DequantizeLinear and Reshape of constants; drop graph inputs that only carried weights."""
    model = onnx.load_from_string(data)
    values = constants(model)
    kept = []
    for node in model.graph.node:
        if node.op_type == "DequantizeLinear" and node.input[0] in values:
            values[node.output[0]] = _dequantised(node, values)
        elif node.op_type == "Reshape" and node.input[0] in values and node.input[1] in values:
            values[node.output[0]] = values[node.input[0]].reshape(values[node.input[1]].tolist())
        else:
            kept.append(node)
    del model.graph.node[:]
    model.graph.node.extend(kept)
    set_constants(model, values)
    used = {name for node in kept for name in node.input}
    inputs = [value for value in model.graph.input if value.name in used and value.name not in values]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    model.opset_import[0].version = OPSET
    model.ir_version = IR_VERSION
    return model


def _dequantised(node: onnx.NodeProto, values: dict[str, NDArray]) -> NDArray[np.float32]:
    """(q - zero) · scale, with scale and zero repeated block by block along the axis (ONNX DequantizeLinear-21)."""
    attributes = {attribute.name: attribute.i for attribute in node.attribute}
    axis, block = attributes.get("axis", 1), attributes.get("block_size", 0)
    quantised = values[node.input[0]].astype(np.float32)
    scale = values[node.input[1]].astype(np.float32)
    zero = np.zeros_like(scale)
    if len(node.input) > 2 and node.input[2]:
        zero = values[node.input[2]].astype(np.float32)
    if block:
        length = np.arange(quantised.shape[axis])
        scale, zero = (np.repeat(part, block, axis).take(length, axis) for part in (scale, zero))
    elif scale.ndim == 1 and scale.size > 1:
        shape = [-1 if i == axis else 1 for i in range(quantised.ndim)]
        scale, zero = scale.reshape(shape), zero.reshape(shape)
    return ((quantised - zero) * scale).astype(np.float32)
