"""What a neural swapper is told about the identity: an embedding or a picture, in the form its contract asks for."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from farm.errors import RecipeError
from farm.faces.neural_tensors import as_unit, to_tensor
from farm.inference.spec import ModelSpec, Tensor

Vector = NDArray[np.float32]


class Runs(Protocol):
    """A loaded catalogue model; `farm.inference.session.Model` is the real one."""

    @property
    def spec(self) -> ModelSpec: ...

    def run_batch(self, **inputs: NDArray[Any]) -> dict[str, NDArray[Any]]: ...


@runtime_checkable
class Loads(Protocol):
    """The loaded models of this process; `farm.inference.session.Models` is the real one."""

    def load(self, name: str, precision: str | None = None) -> Runs: ...

    def weights(self, name: str, precision: str | None = None) -> Path: ...


def catalogue_of(networks: object, model: str) -> Loads:
    """The networks as those of a catalogue; RecipeError, naming the model that needs it, where they are others."""
    if not isinstance(networks, Loads):
        raise RecipeError(
            "The networks given here are not those of a catalogue.",
            where=f"model {model!r}",
            do="Give the pipeline farm.inference.session.Models.",
        )
    return networks


@dataclass(frozen=True, slots=True)
class SourceFace:
    """One identity as a swapper needs it.

    crops: aligned uint8 RGB crops (n, side, side, 3) of its pictures by template name; the first is the best.
    digest: sha256 of the pictures, for the cache.
    """

    crops: dict[str, NDArray[np.uint8]]
    digest: str

    def of(self, template: str, side: int) -> NDArray[np.uint8]:
        crops = self.crops.get(template)
        if crops is None or crops.shape[1] < side:
            raise RecipeError(
                f"The identity has no {template} crop of {side} px.",
                where="swap",
                do="Prepare the identity again for this recipe.",
            )
        return crops


class SourceCache:
    """The latest prepared sources by (identity digest, model): preparing one runs a large network."""

    def __init__(self, size: int = 64) -> None:
        self._size = size
        self._kept: OrderedDict[tuple[str, str], NDArray[np.float32]] = OrderedDict()

    def get(self, key: tuple[str, str], make: Callable[[], NDArray[np.float32]]) -> NDArray[np.float32]:
        if key in self._kept:
            self._kept.move_to_end(key)
        else:
            self._kept[key] = make()
            if len(self._kept) > self._size:
                self._kept.popitem(last=False)
        return self._kept[key]


def raw_embedding(recogniser: Runs, crops: NDArray[np.uint8]) -> Vector:
    """Mean raw embedding (d,) of aligned RGB crops (n, s, s, 3), not normalised: swappers differ in that."""
    contract = recogniser.spec.inputs[0]
    tensor = to_tensor(as_unit(crops), contract)
    output = recogniser.run_batch(**{contract.name: tensor})[recogniser.spec.outputs[0].name]
    mean: Vector = np.asarray(output, np.float32).reshape(len(crops), -1).mean(axis=0)
    return mean


def embedding_source(
    raw: Vector, contract: Tensor, *, converter: Runs | None = None, emap: Vector | None = None
) -> Vector:
    """The (1, d) source tensor of a raw embedding.

    normalise "unit": length 1 at the end. "none": as it comes. "by-raw-length": the embedding times the matrix over the
    raw embedding's length, which has the right direction but not length 1; inswapper is used that way as published.
    """
    vector = np.asarray(raw, np.float32).reshape(1, -1)
    length = float(np.linalg.norm(vector))
    if length == 0 or not np.isfinite(length):
        raise RecipeError("The identity's embedding is empty.", where="swap", do="Use another picture of the person.")
    if converter is not None:
        tensor = converter.spec.inputs[0]
        vector = converter.run_batch(**{tensor.name: vector})[converter.spec.outputs[0].name].reshape(1, -1)
    if emap is not None:
        vector = vector @ emap
    if contract.normalise == "by-raw-length":
        return np.asarray(vector / length, np.float32)
    if contract.normalise == "unit":
        return np.asarray(vector / np.linalg.norm(vector), np.float32)
    return np.asarray(vector, np.float32)


def weighted(source: Vector, target: Vector, weight: float) -> Vector:
    """`source` (1, d) pushed away from or drawn to `target` (1, d) of the same space by the weight slider, 0..1.

    k = .35 - .7·weight; source·(1-k) + target·k. At .5 the source is unchanged; above, the target's own identity is
    taken out of it.
    """
    k = np.float32(0.35 - 0.7 * weight)
    return np.asarray(source * (1 - k) + target * k, np.float32)


def read_emap(path: Path) -> NDArray[np.float32]:
    """The identity matrix of an inswapper file: its last initializer, as float32.

    Parsing the file takes seconds, so the matrix is kept beside it in `<file>.emap.npy`.
    """
    kept = path.with_name(f"{path.name}.emap.npy")
    if kept.exists():
        return np.asarray(np.load(kept, allow_pickle=False), np.float32)
    import onnx
    from onnx import numpy_helper

    matrix = np.asarray(numpy_helper.to_array(onnx.load(path).graph.initializer[-1]), np.float32)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise RecipeError(
            f"The last weights in the file have shape {matrix.shape}; a square matrix was expected.",
            where=path.name,
            do="Use the file that the catalogue entry was written for.",
        )
    partial = kept.with_name(f".{kept.name}.part")
    with partial.open("wb") as stream:
        np.save(stream, matrix, allow_pickle=False)
    partial.replace(kept)
    return matrix
