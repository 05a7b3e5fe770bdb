"""A network in int8, by what it was seen to do: run in the builder process (`farm.inference.engine_builder`).

Static quantisation of ONNX Runtime: weights of convolutions and matrices in 8 bits per channel, activations in 8 bits
by the ranges that they had in the samples. Every other sample is kept back and measures what that costs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

Feed = dict[str, Any]

MODEL, MEASURED = "model.onnx", "measured.json"
_QUANTISED = ["Conv", "ConvTranspose", "MatMul", "Gemm"]


def samples_file(path: Path, feeds: list[Feed]) -> None:
    """Write samples (tensors by graph name) for `read_samples`."""
    with path.open("wb") as stream:
        arrays = {f"{number}/{name}": value for number, feed in enumerate(feeds) for name, value in feed.items()}
        np.savez(stream, allow_pickle=False, **arrays)


def read_samples(path: Path) -> list[Feed]:
    found: dict[int, Feed] = {}
    with np.load(path, allow_pickle=False) as arrays:
        for key in arrays.files:
            number, name = key.split("/", 1)
            found.setdefault(int(number), {})[name] = arrays[key]
    return [found[number] for number in sorted(found)]


def calibrate(model: Path, samples: Path, output: str, out: Path) -> None:
    """Write `MODEL` and `MEASURED` into the folder `out`. ImportError where ONNX Runtime's quantiser lacks a package.

    output: the graph's name of the picture that is compared; the first one with four axes where there is none of it.
    `MEASURED` holds `error`, the mean difference from the given model as a share of what its answers span, and
    `samples`, how many measured it.
    """
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    feeds = read_samples(samples)

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self._left: Iterator[Feed] = iter(feeds[::2])

        def get_next(self) -> Feed | None:
            return next(self._left, None)

    ready = out / "ready.onnx"
    quant_pre_process(str(model), str(ready), skip_symbolic_shape=True)
    quantize_static(
        str(ready),
        str(out / MODEL),
        Reader(),
        quant_format=QuantFormat.QDQ,
        op_types_to_quantize=_QUANTISED,
        per_channel=True,
        # Seven bits for weights: processors without VNNI add pairs of products in 16 bits, which eight would overflow.
        reduce_range=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
    )
    ready.unlink()
    (out / MEASURED).write_text(json.dumps(_measured(model, out / MODEL, feeds[1::2] or feeds, output)))


def _measured(full: Path, small: Path, feeds: list[Feed], output: str) -> dict[str, float]:
    from farm.inference.opening import runtime

    ort = runtime()
    wanted, made = (ort.InferenceSession(str(path), providers=["CPUExecutionProvider"]) for path in (full, small))
    outputs = [value.name for value in wanted.get_outputs()]
    name = output if output in outputs else next(v.name for v in wanted.get_outputs() if len(v.shape) == 4)
    pairs = [(wanted.run([name], feed)[0], made.run([name], feed)[0]) for feed in feeds]
    span = max(float(a.max()) for a, _ in pairs) - min(float(a.min()) for a, _ in pairs)
    error = float(np.mean([np.abs(a - b).mean() for a, b in pairs])) / max(span, 1e-6)
    return {"error": error if np.isfinite(error) else 1.0, "samples": len(pairs)}
