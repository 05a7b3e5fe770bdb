"""ncnn's text graph and weights to ONNX, for the layers that SPAN uses."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from tools.conversions.graphs import IR_VERSION, OPSET

_MAGIC = "7767517"
_HALF = 0x01306B47
_BINARY = ("Add", "Sub", "Mul", "Div")


@dataclass
class _Weights:
    data: bytes
    position: int = 0

    def floats(self, count: int) -> NDArray[np.float32]:
        values = np.frombuffer(self.data, np.float32, count, self.position).copy()
        self.position += 4 * count
        return values

    def flagged(self, count: int) -> NDArray[np.float32]:
        """Weights behind a word that says how they are stored: half precision padded to 4 bytes, or float."""
        (flag,) = struct.unpack_from("<I", self.data, self.position)
        self.position += 4
        if flag == 0:
            return self.floats(count)
        if flag != _HALF:
            raise ValueError(f"unknown weight storage {flag:#x} at byte {self.position - 4}")
        values = np.frombuffer(self.data, np.float16, count, self.position).astype(np.float32)
        self.position += (2 * count + 3) // 4 * 4
        return values


@dataclass
class _Graph:
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)
    alias: dict[str, str] = field(default_factory=dict)

    def constant(self, name: str, values: NDArray) -> str:
        self.constants.append(numpy_helper.from_array(values, name))
        return name

    def add(self, op: str, inputs: list[str], output: str, **attributes: object) -> None:
        self.nodes.append(helper.make_node(op, inputs, [output], **attributes))


def convert(param: str, weights: bytes, *, scale: int) -> onnx.ModelProto:
    """The network as ONNX: input "data" and output "output", (N, 3, H, W), the output `scale` times as large.

    Every byte of `weights` must be used; ValueError otherwise, or for a layer that is not known here.
    """
    lines = [line.split() for line in param.splitlines() if line.strip()]
    if lines[0] != [_MAGIC]:
        raise ValueError("not an ncnn text graph")
    store, graph = _Weights(weights), _Graph()
    for kind, _, n_in, n_out, *rest in lines[2:]:
        names, settings = rest[: int(n_in) + int(n_out)], rest[int(n_in) + int(n_out) :]
        inputs = [graph.alias.get(name, name) for name in names[: int(n_in)]]
        outputs = names[int(n_in) :]
        _layer(graph, store, kind, inputs, outputs, {int(k): v for k, v in (item.split("=") for item in settings)})
    if store.position != len(weights):
        raise ValueError(f"{len(weights) - store.position} bytes of weights were not used")
    if list(graph.nodes[-1].output) != ["output"]:
        raise ValueError(f"the last layer is {graph.nodes[-1].output[0]}, not the output")
    inside = ["N", 3, "H", "W"]
    outside = ["N", 3, f"{scale}H", f"{scale}W"]
    onnx_graph = helper.make_graph(
        graph.nodes,
        "main",
        [helper.make_tensor_value_info("data", TensorProto.FLOAT, inside)],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, outside)],
        graph.constants,
    )
    return helper.make_model(onnx_graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)


def _layer(
    graph: _Graph, store: _Weights, kind: str, inputs: list[str], outputs: list[str], settings: dict[int, str]
) -> None:
    out = outputs[0]
    match kind:
        case "Input":
            graph.alias[out] = "data"
        case "Split":
            graph.alias |= dict.fromkeys(outputs, inputs[0])
        case "Convolution":
            _convolution(graph, store, inputs[0], out, {key: int(value) for key, value in settings.items()})
        case "MemoryData":
            sizes = [int(settings.get(axis, 0)) for axis in (2, 1, 0)]
            shape = [1, *(size for size in sizes if size)]
            graph.constant(out, store.floats(int(np.prod(shape))).reshape(shape))
        case "Sigmoid":
            graph.add("Sigmoid", inputs, out)
        case "Swish":
            graph.add("Sigmoid", inputs, f"{out}_s")
            graph.add("Mul", [inputs[0], f"{out}_s"], out)
        case "BinaryOp":
            if int(settings.get(1, 0)):
                inputs = [inputs[0], graph.constant(f"{out}_c", np.float32(settings[2]))]
            graph.add(_BINARY[int(settings.get(0, 0))], inputs, out)
        case "Concat":
            graph.add("Concat", inputs, out, axis=1)
        case "PixelShuffle":
            graph.add("DepthToSpace", inputs, out, blocksize=int(settings[0]), mode="CRD")
        case _:
            raise ValueError(f"the layer {kind} is not known here")


def _convolution(graph: _Graph, store: _Weights, source: str, out: str, settings: dict[int, int]) -> None:
    """ncnn settings: 0 channels out, 1 kernel, 3 stride, 4 padding, 5 has bias, 6 weight count, 9 activation."""
    channels, kernel, count = settings[0], settings[1], settings[6]
    if settings.get(9, 0):
        raise ValueError("a convolution with an activation is not known here")
    weight = store.flagged(count).reshape(channels, count // (channels * kernel**2), kernel, kernel)
    names = [source, graph.constant(f"{out}_w", weight)]
    if settings.get(5, 0):
        names.append(graph.constant(f"{out}_b", store.floats(channels)))
    stride, pad = settings.get(3, 1), settings.get(4, 0)
    graph.add("Conv", names, out, kernel_shape=[kernel] * 2, pads=[pad] * 4, strides=[stride] * 2)
