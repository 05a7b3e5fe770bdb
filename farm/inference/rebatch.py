"""Give a graph that was exported for one sample a free batch axis, so that faces and phases run together.

The published inswapper, SFace and YuNet are fixed to a batch of one. What fixes it is the declared shape, and the
constant shapes of Reshape nodes; both are rewritten here, and the result is proved against the original by running it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from farm.errors import RecipeError

BATCH_AXIS = "N"


def free_batch(model: Any) -> Any:
    """A copy of the ONNX model whose inputs and outputs have a free first axis called "N".

    Raises RecipeError where an input is not of batch one, or a Reshape mixes the batch with other axes.
    """
    import onnx
    from onnx import numpy_helper

    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    constants = {tensor.name: tensor for tensor in copy.graph.initializer}
    for value in (*copy.graph.input, *copy.graph.output):
        if value.name not in constants:
            _free_first(value)
    for node in copy.graph.node:
        if node.op_type != "Reshape" or node.input[1] not in constants:
            continue
        wanted = numpy_helper.to_array(constants[node.input[1]]).copy()
        if wanted.size == 0 or wanted[0] in (0, -1):  # copied or inferred: free already
            continue
        if wanted[0] != 1:
            raise RecipeError(
                f"Reshape {node.output[0]} to {wanted.tolist()} mixes the batch with other axes.",
                where="free_batch",
                do="Export the network again with a dynamic batch.",
            )
        wanted[0] = 0  # ONNX: copy the axis of the input
        name = f"{node.output[0]}_shape_n"
        copy.graph.initializer.append(numpy_helper.from_array(wanted, name))
        node.input[1] = name
    used = {name for node in copy.graph.node for name in node.input}
    kept = [tensor for tensor in copy.graph.initializer if tensor.name in used]
    del copy.graph.initializer[:]
    copy.graph.initializer.extend(kept)
    del copy.graph.value_info[:]
    onnx.checker.check_model(copy)
    return copy


def freed_bytes(path: Path) -> bytes:
    """The model file at `path` with a free batch axis, as bytes; RecipeError where it cannot be."""
    import onnx

    return bytes(free_batch(onnx.load(path)).SerializeToString())


def same_on_each(single: Any, batched: Any, feeds: list[dict[str, Any]], *, tolerance: float = 1e-4) -> float:
    """Largest difference between runs of `single` and one run of `batched` (ONNX Runtime sessions) on the same feeds.

    Raises RecipeError where it is over `tolerance` times the largest output, so that a wrong rewrite is never used.
    """
    names = [value.name for value in single.get_outputs()]
    alone = [single.run(names, feed) for feed in feeds]
    joined = {name: np.concatenate([feed[name] for feed in feeds]) for name in feeds[0]}
    together = batched.run(names, joined)
    worst = 0.0
    for index, name in enumerate(names):
        expected = np.concatenate([outputs[index] for outputs in alone]).astype(np.float64)
        scale = max(float(np.abs(expected).max()), 1.0)
        difference = float(np.abs(expected - together[index]).max()) / scale
        if not difference <= tolerance:
            raise RecipeError(
                f"Output {name} differs by {difference:.2g} between batch and single runs.",
                where="free_batch",
                do="Export the network again with a dynamic batch.",
            )
        worst = max(worst, difference)
    return worst


def _free_first(value: Any) -> None:
    shape = value.type.tensor_type.shape
    if not shape.dim:
        return
    if shape.dim[0].dim_value not in (0, 1):
        raise RecipeError(
            f"{value.name} has a fixed batch of {shape.dim[0].dim_value}.",
            where="free_batch",
            do="Only graphs of batch one can be freed.",
        )
    shape.dim[0].ClearField("dim_value")
    shape.dim[0].dim_param = BATCH_AXIS


def proved_free(path: Path) -> bytes:
    """`freed_bytes`, compared with the original on the processor first; RecipeError where it differs."""
    from farm.inference import providers as ep
    from farm.inference.opening import random_feed, runtime

    data = freed_bytes(path)
    single, batched = (runtime().InferenceSession(source, providers=[ep.CPU]) for source in (path.read_bytes(), data))
    same_on_each(single, batched, [random_feed(single, seed) for seed in (1, 2)])
    return data
