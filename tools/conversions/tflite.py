"""TFLite to ONNX by tf2onnx, run as a program of its own: it and TensorFlow are build-time tools only."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import helper

from tools.conversions.graphs import OPSET, constants, set_constants


def convert(data: bytes) -> onnx.ModelProto:
    """The TFLite flatbuffer as ONNX; RuntimeError with the tool's last lines where tf2onnx fails or is missing."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "model.tflite"), Path(folder, "model.onnx")
        source.write_bytes(data)
        arguments = ["--tflite", str(source), "--output", str(target), "--opset", str(OPSET)]
        environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "PYTHONHASHSEED": "0"}
        done = subprocess.run(
            [sys.executable, "-m", "tf2onnx.convert", *arguments],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode or not target.exists():
            raise RuntimeError(f"tf2onnx failed: {done.stderr[-800:]}")
        return onnx.load(target)


def spell_out_transposed_convolution(model: onnx.ModelProto) -> onnx.ModelProto:
    """Replace MediaPipe's own operator (transposed convolution with bias, stride and kernel 2, NHWC) by ONNX ones."""
    values = constants(model)
    nodes = []
    for node in model.graph.node:
        if node.op_type != "TFL_Convolution2DTransposeBias":
            nodes.append(node)
            continue
        source, out = node.input[0], node.output[0]
        values[f"{out}_w"] = np.ascontiguousarray(values[node.input[1]].transpose(3, 0, 1, 2))  # OHWI to IOHW
        values[f"{out}_b"] = values[node.input[2]]
        names = [f"{out}_nchw", f"{out}_w", f"{out}_b"]
        kernel = list(values[f"{out}_w"].shape[2:])
        nodes += [
            helper.make_node("Transpose", [source], [f"{out}_nchw"], perm=[0, 3, 1, 2]),
            helper.make_node("ConvTranspose", names, [f"{out}_ct"], kernel_shape=kernel, strides=[2, 2]),
            helper.make_node("Transpose", [f"{out}_ct"], [out], perm=[0, 2, 3, 1]),
        ]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    set_constants(model, values)
    return model


def half(model: onnx.ModelProto) -> onnx.ModelProto:
    """Weights and sums in fp16, inputs and outputs left in fp32."""
    from onnxconverter_common import float16

    return float16.convert_float_to_float16(model, keep_io_types=True)
