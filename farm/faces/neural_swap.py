"""Neural swappers: one protocol, an adapter for each way of telling a network who the identity is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

from farm.errors import RecipeError
from farm.faces.neural_boost import factor, from_phases, to_phases
from farm.faces.neural_safety import Outputs, checked, full_precision
from farm.faces.neural_source import (
    Loads,
    Runs,
    SourceCache,
    SourceFace,
    embedding_source,
    raw_embedding,
    read_emap,
    weighted,
)
from farm.faces.neural_tensors import Picture, as_unit, to_mask, to_pictures, to_tensor
from farm.inference.spec import ModelSpec, Tensor

_EMAP_OF = "emap of "


@dataclass(frozen=True, slots=True)
class Swapped:
    """faces: RGB 0..1 (n, s, s, 3). masks: 0..1 (n, s, s) where the network gives its own, else None.

    ok: bool (n,): False where the output was not usable even in full precision; that crop is returned as it came.
    redone: bool (n,): True where full precision had to be used.
    """

    faces: Picture
    masks: NDArray[np.float32] | None
    ok: NDArray[np.bool_]
    redone: NDArray[np.bool_]


class Swapper(Protocol):
    """A face swapper on aligned crops.

    side: the smallest crop side; crops may be any whole multiple of it where `boosts`. template: the alignment.
    """

    side: int
    template: str
    boosts: bool

    def source(self, face: SourceFace) -> NDArray[np.float32]:
        """The identity in the network's own form; cheap when it was asked for before."""
        ...

    def swap(self, crops: NDArray[np.uint8] | Picture, source: NDArray[np.float32]) -> Swapped:
        """`crops` (n, s, s, 3) RGB, uint8 or 0..1, with the identity's face."""
        ...


class EmbeddingSwapper:
    """inswapper, HyperSwap, SimSwap, GHOST, HiFiFace, InStyleSwapper: the identity is a vector.

    The contract names the recogniser, and what the vector goes through: a converter network, or the matrix ("emap")
    that lies in the swapper's own file or in that of another entry.
    """

    boosts = True

    def __init__(self, models: Loads, name: str, *, precision: str | None = None, weight: float = 0.5) -> None:
        self._model = models.load(name, precision)
        spec = self._model.spec
        self._network = _Network(models, self._model, precision)
        self._told = _source_tensor(spec)
        if not 0 <= weight <= 1 or (weight != 0.5 and not spec.settings.get("weight", False)):
            raise RecipeError(
                f"The weight {weight} cannot be used.",
                where=f"model {name}",
                do="Give 0 to 1" if spec.settings.get("weight") else "Leave it at .5: this model has no such slider.",
            )
        self.side, self.template = self._network.target.size, self._network.target.template
        self.weight = weight
        self._recogniser = models.load(self._told.recogniser)
        self._converter, self._emap = _through(models, spec, self._told, precision)
        self._cache = SourceCache()

    def source(self, face: SourceFace) -> NDArray[np.float32]:
        return self._cache.get((face.digest, self._model.spec.name), lambda: self._prepared(face))

    def weighted_source(self, source: NDArray[np.float32], target: SourceFace) -> NDArray[np.float32]:
        """The source after the weight slider, for the face that is to be replaced.

        Both vectors are brought into the swapper's space first; tools that mix a converted source with the target's
        plain ArcFace vector get another, meaningless, direction away from the middle position.
        """
        return source if self.weight == 0.5 else weighted(source, self._prepared(target), self.weight)

    def swap(self, crops: NDArray[np.uint8] | Picture, source: NDArray[np.float32]) -> Swapped:
        return self._network.swap(crops, {self._told.name: source})

    def _prepared(self, face: SourceFace) -> NDArray[np.float32]:
        contract = self._recogniser.spec.inputs[0]
        crops = face.of(contract.template, contract.size)
        raw = raw_embedding(self._recogniser, _resized(crops, contract.size))
        return embedding_source(raw, self._told, converter=self._converter, emap=self._emap)


class PictureSwapper:
    """UniFace and BlendSwap: the identity is a picture."""

    boosts = True

    def __init__(self, models: Loads, name: str, *, precision: str | None = None) -> None:
        self._model = models.load(name, precision)
        self._network = _Network(models, self._model, precision)
        self._told = _source_tensor(self._model.spec)
        self.side, self.template = self._network.target.size, self._network.target.template

    def source(self, face: SourceFace) -> NDArray[np.float32]:
        crops = face.of(self._told.template, self._told.size)[:1]
        return to_tensor(as_unit(_resized(crops, self._told.size)), self._told)

    def swap(self, crops: NDArray[np.uint8] | Picture, source: NDArray[np.float32]) -> Swapped:
        return self._network.swap(crops, {self._told.name: source})


class DfmSwapper:
    """A person's own autoencoder: it knows its identity, takes a crop and a morph factor, and gives two masks."""

    boosts = False

    def __init__(self, models: Loads, name: str, *, morph: float | None = None) -> None:
        self._model = models.load(name)
        spec = self._model.spec
        self._target = next(tensor for tensor in spec.inputs if tensor.kind == "image")
        self._morph = next((tensor for tensor in spec.inputs if tensor.kind == "weight"), None)
        self._face = next(tensor for tensor in spec.outputs if tensor.kind == "image")
        self._masks = [tensor for tensor in spec.outputs if tensor.kind == "mask"]
        self.side, self.template = self._target.size, self._target.template
        self.morph = float(spec.settings.get("morph", 1.0)) if morph is None else morph

    def source(self, face: SourceFace) -> NDArray[np.float32]:
        return np.zeros((1, 0), np.float32)

    def swap(self, crops: NDArray[np.uint8] | Picture, source: NDArray[np.float32]) -> Swapped:
        given = as_unit(crops)
        result = checked(self._run, None, to_tensor(given, self._target), self._face.name)
        faces = np.where(_per_sample(result.ok), to_pictures(result.outputs[self._face.name], self._face), given)
        masks = np.minimum.reduce([to_mask(result.outputs[mask.name], mask) for mask in self._masks])
        return Swapped(faces, masks * result.ok[:, None, None], result.ok, result.redone)

    def _run(self, tensor: NDArray[np.float32]) -> Outputs:
        inputs: dict[str, NDArray[Any]] = {self._target.name: tensor}
        if self._morph is not None:
            inputs[self._morph.name] = np.full(1, self.morph, np.float32)
        parts = [self._model.run_batch(**{**inputs, self._target.name: tensor[i : i + 1]}) for i in range(len(tensor))]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


class _Network:
    """The network of an embedding or picture swapper: boost, batch, safety, and reading the outputs."""

    def __init__(self, models: Loads, model: Runs, precision: str | None) -> None:
        self._models, self._model = models, model
        self.target = next(tensor for tensor in model.spec.inputs if tensor.name == "target")
        self._face = next(tensor for tensor in model.spec.outputs if tensor.kind == "image")
        self._mask = next((tensor for tensor in model.spec.outputs if tensor.kind == "mask"), None)
        self._full = full_precision(model.spec, precision)

    def swap(self, crops: NDArray[np.uint8] | Picture, told: dict[str, NDArray[np.float32]]) -> Swapped:
        given = as_unit(crops)
        side = given.shape[1]
        tensor = to_tensor(to_phases(given, self.target.size), self.target)

        def again(wrong: NDArray[np.float32]) -> Outputs:
            return self._models.load(self._model.spec.name, self._full).run_batch(**told, target=wrong)

        result = checked(
            lambda batch: self._model.run_batch(**told, target=batch),
            again if self._full is not None else None,
            tensor,
            self._face.name,
        )
        boost = factor(side, self.target.size) ** 2
        ok: NDArray[np.bool_] = np.logical_and.reduce(result.ok.reshape(-1, boost), axis=1)
        redone: NDArray[np.bool_] = np.logical_or.reduce(result.redone.reshape(-1, boost), axis=1)
        faces = from_phases(to_pictures(result.outputs[self._face.name], self._face), side)
        return Swapped(np.where(_per_sample(ok), faces, given), self._masks(result.outputs, side, ok), ok, redone)

    def _masks(self, outputs: Outputs, side: int, ok: NDArray[np.bool_]) -> NDArray[np.float32] | None:
        if self._mask is None or self._mask.name not in outputs:
            return None
        masks = from_phases(to_mask(outputs[self._mask.name], self._mask)[..., None], side)[..., 0]
        return masks * ok[:, None, None]


def open_swapper(models: Loads, spec: ModelSpec, *, precision: str | None = None, weight: float = 0.5) -> Swapper:
    """The adapter for a catalogue swapper, by what its contract says about the source."""
    told = [tensor for tensor in spec.inputs if tensor.name == "source"]
    if not told:
        return DfmSwapper(models, spec.name)
    if told[0].kind == "image":
        return PictureSwapper(models, spec.name, precision=precision)
    return EmbeddingSwapper(models, spec.name, precision=precision, weight=weight)


def _source_tensor(spec: ModelSpec) -> Tensor:
    return spec.input("source")


def _through(
    models: Loads, spec: ModelSpec, told: Tensor, precision: str | None
) -> tuple[Runs | None, NDArray[np.float32] | None]:
    if told.through == "emap":
        return None, read_emap(models.weights(spec.name, precision))
    if told.through.startswith(_EMAP_OF):
        return None, read_emap(models.weights(told.through.removeprefix(_EMAP_OF)))
    return (models.load(told.through) if told.through else None), None


def _resized(crops: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    if crops.shape[1] == side:
        return crops
    return np.stack([cv2.resize(crop, (side, side), interpolation=cv2.INTER_AREA) for crop in crops]).astype(np.uint8)


def _per_sample(flags: NDArray[np.bool_]) -> NDArray[np.bool_]:
    return flags[:, None, None, None]
