"""Stand-in networks: tiny graphs with the very signature of a catalogue model, and an answer that one can foresee.

They prove the code around a network (names, shapes, layout, colour order, normalisation, decoding, batching) where the
weights are not at hand, and give benchmarks the same load on both sides.

What each does, in the tensor's own values:
    swapper         output = target/2 + tint, the tint of channel c being source[c]/4 (a picture: its mean, /4);
                    HyperSwap-like ones give the target's first channel's mean as mask
    DFM             face = crop/2 + morph/4, both masks = the crop's first channel
    restorer        output = -input (CodeFormer-like: -input · weight)
    upscaler        nearest pixel, then half
    recogniser      means of a 16 by 32 grid over the three channels' weighted sum
    converter       the vector in reverse order, doubled
    detectors, landmarkers   one fixed face; see FACE
    masks           the first channel of the input; regions: class 1 where the first channel leads, else 10 or 17
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farm.errors import RecipeError
from farm.inference.spec import ModelSpec, Task, Tensor

Array = NDArray[Any]

OPSET = 17
IR_VERSION = 8
SIDE = 640
CHANNEL_WEIGHTS = (0.25, 0.5, 0.125)

FACE_BOX = (160.0, 176.0, 320.0, 384.0)
FACE_POINTS = ((200.0, 240.0), (280.0, 240.0), (240.0, 290.0), (210.0, 340.0), (270.0, 340.0))
FACE_SCORE = 0.875
"""The one face that detector stand-ins find in a 640 px square, whatever is in it."""

DEFAULT_AXES = {"N": 1, "H": 64, "W": 64, "S": 224, "A": 8400, "C": 5}


@dataclass
class _Graph:
    nodes: list[Any] = field(default_factory=list)
    weights: list[Any] = field(default_factory=list)
    count: int = 0

    def constant(self, values: Any, dtype: Any = np.float32) -> str:
        from onnx import numpy_helper

        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(values, dtype), name))
        return name

    def add(self, op: str, inputs: Sequence[str], output: str | None = None, **attributes: Any) -> str:
        from onnx import helper

        self.count += 1
        name = output or f"t{self.count}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], **attributes))
        return name

    def mean(self, source: str, axes: Sequence[int]) -> str:
        return self.add("ReduceMean", [source], axes=list(axes), keepdims=1)

    def times(self, source: str, value: Any, output: str | None = None) -> str:
        return self.add("Mul", [source, self.constant(value)], output)

    def slice(self, source: str, axis: int, start: int, end: int) -> str:
        inputs = [source, *(self.constant([n], np.int64) for n in (start, end, axis))]
        return self.add("Slice", inputs)


def stand_in(spec: ModelSpec, *, batch: int | None = None) -> bytes:
    """The ONNX file of a stand-in for `spec`; RecipeError for an entry that has no contract.

    batch: a fixed first axis, as the published inswapper has; None leaves it free.
    """
    from onnx import checker, helper

    builder = _BUILDERS.get(_kind(spec))
    if builder is None or not spec.inputs:
        raise RecipeError(
            "There is no stand-in for it.", where=f"model {spec.name}", do="Choose an entry with a contract."
        )
    graph = _Graph()
    builder(graph, spec)
    made = helper.make_graph(
        graph.nodes,
        "stand-in",
        [_value(tensor, batch) for tensor in spec.inputs],
        [_value(tensor, batch) for tensor in spec.outputs],
        graph.weights,
    )
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    checker.check_model(model)
    return bytes(model.SerializeToString(deterministic=True))


def emap(size: int = 512) -> NDArray[np.float32]:
    """The matrix at the end of an inswapper stand-in: every vector shifted by one place and doubled."""
    return np.asarray(np.roll(np.eye(size, dtype=np.float32), 1, axis=1) * 2, np.float32)


def _kind(spec: ModelSpec) -> str:
    decode = spec.decode.kind if spec.decode is not None else ""
    if spec.task is Task.SWAPPER:
        sources = [tensor for tensor in spec.inputs if tensor.name == "source"]
        return f"swapper/{sources[0].kind}" if sources else "swapper/dfm"
    detailed = (Task.DETECTOR, Task.LANDMARKER, Task.OCCLUSION_MASK, Task.REGION_MASK)
    return f"{spec.task}/{decode}" if spec.task in detailed else str(spec.task)


def _value(tensor: Tensor, batch: int | None) -> Any:
    from onnx import TensorProto, helper

    types = {"float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE, "int64": TensorProto.INT64}
    shape = [batch if size == "N" and batch is not None else size for size in tensor.shape]
    return helper.make_tensor_value_info(tensor.in_graph, types[tensor.dtype], shape)


def _channel_axis(tensor: Tensor) -> int:
    return 3 if tensor.layout == "NHWC" else 1


def _plane_axes(tensor: Tensor) -> tuple[int, int]:
    return (1, 2) if tensor.layout == "NHWC" else (2, 3)


def _embedding_swapper(graph: _Graph, spec: ModelSpec) -> None:
    target, source = spec.input("target"), spec.input("source")
    if source.kind == "embedding":
        tint = graph.slice(source.in_graph, 1, 0, 3)
        tint = graph.add("Reshape", [tint, graph.constant([-1, 3, 1, 1], np.int64)])
    else:
        tint = graph.mean(source.in_graph, _plane_axes(source))
    half = graph.times(target.in_graph, 0.5)
    graph.add("Add", [half, graph.times(tint, 0.25)], spec.outputs[0].in_graph)
    for mask in spec.outputs[1:]:
        channel = graph.slice(target.in_graph, 1, 0, 1)
        graph.add("Add", [graph.times(channel, 0.0), graph.mean(channel, (2, 3))], mask.in_graph)
    if source.through == "emap":
        graph.constant(emap())


def _dfm(graph: _Graph, spec: ModelSpec) -> None:
    crop, morph = spec.inputs
    half = graph.times(crop.in_graph, 0.5)
    mask, face, other = spec.outputs
    graph.add("Add", [half, graph.times(morph.in_graph, 0.25)], face.in_graph)
    for output in (mask, other):
        graph.add("Identity", [graph.slice(crop.in_graph, 3, 0, 1)], output.in_graph)


def _restorer(graph: _Graph, spec: ModelSpec) -> None:
    negative = graph.times(spec.inputs[0].in_graph, -1.0)
    if len(spec.inputs) > 1:
        from onnx import TensorProto

        weight = graph.add("Cast", [spec.inputs[1].in_graph], to=TensorProto.FLOAT)
        graph.add("Mul", [negative, weight], spec.outputs[0].in_graph)
    else:
        graph.add("Identity", [negative], spec.outputs[0].in_graph)


def _upscaler(graph: _Graph, spec: ModelSpec) -> None:
    scale = float(spec.settings["scale"])
    scales = graph.constant([1, 1, scale, scale])
    large = graph.add(
        "Resize",
        [spec.inputs[0].in_graph, "", scales],
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )
    graph.times(large, 0.5, spec.outputs[0].in_graph)


def _recogniser(graph: _Graph, spec: ModelSpec) -> None:
    tensor = spec.inputs[0]
    kernel = np.array(CHANNEL_WEIGHTS, np.float32).reshape(1, 3, 1, 1)
    grey = graph.add("Conv", [tensor.in_graph, graph.constant(kernel)], kernel_shape=[1, 1])
    rows, columns = int(tensor.shape[2]) // 16, int(tensor.shape[3]) // 32
    pooled = graph.add("AveragePool", [grey], kernel_shape=[rows, columns], strides=[rows, columns])
    cut = graph.slice(graph.slice(pooled, 2, 0, 16), 3, 0, 32)
    graph.add("Flatten", [cut], spec.outputs[0].in_graph)


def _converter(graph: _Graph, spec: ModelSpec) -> None:
    size = int(spec.inputs[0].shape[1])
    matrix = np.eye(size, dtype=np.float32)[::-1] * 2
    graph.add("MatMul", [spec.inputs[0].in_graph, graph.constant(matrix)], spec.outputs[0].in_graph)


def _attributes(graph: _Graph, spec: ModelSpec) -> None:
    from onnx import TensorProto

    mean = graph.add("ReduceMean", [spec.inputs[0].in_graph], axes=[1, 2, 3], keepdims=0)
    for index, output in enumerate(spec.outputs):
        shifted = graph.add("Add", [graph.times(mean, 0.0), graph.constant(float(index + 1))])
        graph.add("Cast", [shifted], output.in_graph, to=TensorProto.INT64)


def _content(graph: _Graph, spec: ModelSpec) -> None:
    shape = [DEFAULT_AXES.get(size, 0) if isinstance(size, str) else size for size in spec.outputs[0].shape]
    values = np.linspace(0, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)
    _fixed(graph, spec, {spec.outputs[0].name: values})


def _fixed(graph: _Graph, spec: ModelSpec, values: dict[str, Array]) -> None:
    """Outputs that do not depend on the input, but keep it in the graph."""
    tensor = spec.inputs[0]
    nothing = graph.times(graph.mean(tensor.in_graph, range(len(tensor.shape))), 0.0)
    nothing = graph.add("Reshape", [nothing, graph.constant([1], np.int64)])
    for output in spec.outputs:
        graph.add("Add", [graph.constant(values[output.name]), nothing], output.in_graph)


def _scrfd(graph: _Graph, spec: ModelSpec) -> None:
    """The face sits on the second anchor of its cell at stride 16, and a weaker copy of it on a neighbour."""
    values: dict[str, Array] = {}
    for stride in (8, 16, 32):
        rows = 2 * (SIDE // stride) ** 2
        values[f"score_{stride}"] = np.zeros((rows, 1), np.float32)
        values[f"box_{stride}"] = np.ones((rows, 4), np.float32)
        values[f"kps_{stride}"] = np.zeros((rows, 10), np.float32)
    box, points = np.array(FACE_BOX), np.array(FACE_POINTS)
    for cell_x, cell_y, score in ((15, 17, FACE_SCORE), (14, 17, FACE_SCORE - 0.1)):
        row = 2 * (cell_y * (SIDE // 16) + cell_x) + 1
        anchor = np.array([cell_x, cell_y]) * 16.0
        values["score_16"][row] = score
        values["box_16"][row] = np.concatenate([anchor - box[:2], box[2:] - anchor]) / 16
        values["kps_16"][row] = ((points - anchor) / 16).reshape(-1)
    _fixed(graph, spec, values)


def _yolo(graph: _Graph, spec: ModelSpec) -> None:
    rows = np.zeros((20, DEFAULT_AXES["A"]), np.float32)
    box = np.array(FACE_BOX)
    whole = [*(box[:2] + box[2:]) / 2, *(box[2:] - box[:2])]
    for column, score in ((4000, FACE_SCORE), (4001, FACE_SCORE - 0.1)):
        rows[:, column] = [*whole, score, *(value for x, y in FACE_POINTS for value in (x, y, 0.9))]
    _fixed(graph, spec, {spec.outputs[0].name: rows[None]})


def landmark_grid() -> NDArray[np.float32]:
    """The 68 points of landmarker stand-ins on a 64 px grid: a line from (8, 16) to (41.5, 49.5)."""
    return np.asarray(np.stack([np.arange(68) * 0.5 + 8, np.arange(68) * 0.5 + 16], 1), np.float32)


def _heatmap_points(graph: _Graph, spec: ModelSpec) -> None:
    points = np.concatenate([landmark_grid(), np.ones((68, 1), np.float32)], 1)
    maps = np.zeros((68, 64, 64), np.float32)
    maps[:, 32, 32] = 0.45
    _fixed(graph, spec, {"points": points[None], "heatmaps": maps[None]})


def _grid_points(graph: _Graph, spec: ModelSpec) -> None:
    points = np.concatenate([landmark_grid(), np.full((68, 1), 0.475, np.float32)], 1)
    _fixed(graph, spec, {"points": points[None]})


def _template_points(graph: _Graph, spec: ModelSpec) -> None:
    """Every point is the middle of the five."""
    middle = graph.mean(spec.inputs[0].in_graph, (1,))
    graph.add("Expand", [middle, graph.constant([1, 68, 2], np.int64)], spec.outputs[0].in_graph)


def _mask(graph: _Graph, spec: ModelSpec) -> None:
    tensor = spec.inputs[0]
    graph.add("Identity", [graph.slice(tensor.in_graph, _channel_axis(tensor), 0, 1)], spec.outputs[0].in_graph)


def _regions(graph: _Graph, spec: ModelSpec) -> None:
    """Logits of class 1, 10 and 17 are the three channels; all others stay at -100."""
    classes = int(spec.outputs[0].shape[1])
    kernel = np.zeros((classes, 3, 1, 1), np.float32)
    bias = np.full(classes, -100, np.float32)
    for channel, number in enumerate((1, 10, 17)):
        kernel[number, channel] = 1
        bias[number] = 0
    inputs = [spec.inputs[0].in_graph, graph.constant(kernel), graph.constant(bias)]
    graph.add("Conv", inputs, spec.outputs[0].in_graph, kernel_shape=[1, 1])


_BUILDERS: dict[str, Callable[[_Graph, ModelSpec], None]] = {
    "swapper/embedding": _embedding_swapper,
    "swapper/image": _embedding_swapper,
    "swapper/dfm": _dfm,
    "restorer": _restorer,
    "upscaler": _upscaler,
    "recogniser": _recogniser,
    "converter": _converter,
    "attributes": _attributes,
    "content-filter": _content,
    "detector/scrfd": _scrfd,
    "detector/yolo-face": _yolo,
    "landmarker/heatmap-points": _heatmap_points,
    "landmarker/grid-points": _grid_points,
    "landmarker/template-points": _template_points,
    "occlusion-mask/mask": _mask,
    "region-mask/regions": _regions,
}
