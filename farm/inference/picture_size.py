"""A network of cells for pictures of another size than it was exported for."""

from __future__ import annotations

from math import prod

from farm.inference.bound import Source


def sized_bytes(source: Source, width: int, height: int) -> bytes:
    """The ONNX graph of `source` for pictures of `width` columns and `height` rows, whole multiples of its strides.

    For graphs of convolutions whose outputs list what was found cell by cell, as detectors' do: (batch, cells, ...).
    """
    import onnx

    model = onnx.load_from_string(source) if isinstance(source, bytes) else onnx.load(str(source))
    sides = model.graph.input[0].type.tensor_type.shape.dim[2:]
    before = prod(side.dim_value for side in sides)
    for side, pixels in zip(sides, (height, width), strict=True):
        side.dim_value = pixels
    for value in model.graph.output:
        cells = value.type.tensor_type.shape.dim[1]
        cells.dim_value = cells.dim_value * width * height // before
    del model.graph.value_info[:]
    return bytes(model.SerializeToString(deterministic=True))
