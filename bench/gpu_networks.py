"""Networks of the published sizes with random weights, for timing: nobody's trained weights are needed.

Encoder, AdaIN residual blocks, decoder, as the published swappers have them; half precision inside and at the edges.
Instance normalisation is written as layer normalisation over each channel's pixels, which is the same sum and has a
fast kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


@dataclass(frozen=True)
class Shape:
    """name: as reported. side: crop. down: (channels, stride) of the encoder after the first 7 × 7. latent: side of the
    bottleneck. blocks: residual blocks. up: channels of the decoder, each after a doubling where `doubles` says so.
    """

    name: str
    model: str
    side: int
    first: int
    down: tuple[tuple[int, int], ...]
    blocks: int
    up: tuple[tuple[int, bool], ...]


SHAPES = {
    "latent16": Shape(
        "inswapper-like, latent 16", "inswapper-128", 128, 128, ((256, 2), (512, 2), (1024, 2)), 6,
        ((512, True), (256, True), (128, True)),
    ),
    "latent32": Shape(
        "inswapper-like, latent 32", "inswapper-128", 128, 128, ((256, 1), (512, 2), (1024, 2)), 6,
        ((512, True), (256, True), (128, False)),
    ),
    "simswap256": Shape(
        "SimSwap-like, 256 px", "simswap-256", 256, 64, ((128, 2), (256, 2), (512, 2)), 9,
        ((256, True), (128, True), (64, True)),
    ),
}  # fmt: skip


class _Builder:
    def __init__(self, *, half: bool, layer_norm: bool) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.random = np.random.default_rng(1)
        self.dtype = np.float16 if half else np.float32
        self.layer_norm = layer_norm
        self.products = 0
        self.parameters = 0

    def constant(self, values: Any, dtype: Any = None) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(values, dtype or self.dtype), name))
        return name

    def add(self, op: str, inputs: Sequence[str], output: str = "", **attributes: Any) -> str:
        name = output or f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], **attributes))
        return name

    def weight(self, *shape: int) -> str:
        fan = int(np.prod(shape[1:]))
        values = self.random.standard_normal(shape, np.float32) * np.float32((2 / fan) ** 0.5)
        self.parameters += int(np.prod(shape))
        return self.constant(values)

    def conv(self, source: str, channels: tuple[int, int], side: int, kernel: int = 3, stride: int = 1) -> str:
        given, made = channels
        pad = kernel // 2
        out = side // stride
        self.products += given * made * kernel**2 * out * out
        names = [source, self.weight(made, given, kernel, kernel), self.constant(np.zeros(made))]
        return self.add("Conv", names, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4)

    def normal(self, source: str, channels: int, side: int) -> str:
        if not self.layer_norm:
            names = [source, self.constant(np.ones(channels)), self.constant(np.zeros(channels))]
            return self.add("InstanceNormalization", names, epsilon=1e-5)
        flat = self.add("Reshape", [source, self.constant([0, channels, side * side], np.int64)])
        ones, zeros = self.constant(np.ones(side * side)), self.constant(np.zeros(side * side))
        done = self.add("LayerNormalization", [flat, ones, zeros], axis=-1, epsilon=1e-5)
        return self.add("Reshape", [done, self.constant([0, channels, side, side], np.int64)])

    def styled(self, source: str, channels: int, side: int) -> str:
        """Adaptive instance normalisation: scale and shift of each channel come from the identity."""
        style = self.add("Gemm", ["source", self.weight(512, 2 * channels), self.constant(np.zeros(2 * channels))])
        style = self.add("Reshape", [style, self.constant([0, 2 * channels, 1, 1], np.int64)])
        scale = self.add("Slice", [style, *(self.constant([v], np.int64) for v in (0, channels, 1))])
        shift = self.add("Slice", [style, *(self.constant([v], np.int64) for v in (channels, 2 * channels, 1))])
        return self.add("Add", [self.add("Mul", [self.normal(source, channels, side), scale]), shift])


def build(
    shape: Shape, path: Path, *, half: bool = True, layer_norm: bool = True, batch: int | None = None
) -> dict[str, float]:
    """Write the ONNX file; its multiplications a face (G) and parameters (M)."""
    g = _Builder(half=half, layer_norm=layer_norm)
    side, width = shape.side, shape.first
    now = g.add("Relu", [g.conv("target", (3, width), side, 7)])
    for channels, stride in shape.down:
        now = g.add("Relu", [g.conv(now, (width, channels), side, 3, stride)])
        width, side = channels, side // stride
    for _ in range(shape.blocks):
        inner = g.add("Relu", [g.styled(g.conv(now, (width, width), side), width, side)])
        now = g.add("Add", [now, g.styled(g.conv(inner, (width, width), side), width, side)])
    scales = g.constant([1, 1, 2, 2], np.float32)
    for channels, doubles in shape.up:
        if doubles:
            now = g.add("Resize", [now, "", scales], mode="nearest", coordinate_transformation_mode="asymmetric",
                        nearest_mode="floor")  # fmt: skip
            side *= 2
        now = g.add("Relu", [g.normal(g.conv(now, (width, channels), side), channels, side)])
        width = channels
    g.add("Sigmoid", [g.conv(now, (width, 3), side, 7)], "output")
    kind = TensorProto.FLOAT16 if half else TensorProto.FLOAT
    first = batch or "N"
    picture = [first, 3, shape.side, shape.side]
    graph = helper.make_graph(
        g.nodes,
        "stand-in",
        [
            helper.make_tensor_value_info("target", kind, picture),
            helper.make_tensor_value_info("source", kind, [first, 512]),
        ],
        [helper.make_tensor_value_info("output", kind, picture)],
        g.weights,
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    return {"multiplications_g": g.products / 1e9, "parameters_m": g.parameters / 1e6}
