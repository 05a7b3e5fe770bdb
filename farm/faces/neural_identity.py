"""What neural swappers are told about an identity: prepared once, in the cast task, and the same for every chunk."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import cv2
import numpy as np
from numpy.typing import NDArray

from farm.faces.geometry import scale_of, similarity
from farm.faces.identity import PreparedIdentity
from farm.faces.neural_align import Aligned, warped
from farm.faces.neural_settings import NeuralSwapSettings
from farm.faces.neural_source import Loads, SourceCache, SourceFace
from farm.faces.neural_swap import Swapper, open_swapper
from farm.inference.spec import ModelSpec, Task
from farm.inference.templates import template
from farm.recipe import MESH_WARP, SWAP, Recipe

Source = NDArray[np.float32]

_SIDE = 256
_EMBEDDED_SIDE = 112


def source_key(spec: ModelSpec, precision: str | None) -> str:
    """The name of a prepared source: the model and the weights that were meant."""
    file = spec.file(precision)
    return f"{spec.name}/{(file.sha256 or file.file)[:16]}"


def source_face(identity: PreparedIdentity, spec: ModelSpec, models: Loads) -> SourceFace:
    """The identity's pictures aligned for the swapper `spec`; RGB crops, the best picture first."""
    told = next((tensor for tensor in spec.inputs if tensor.name == "source"), None)
    if told is None:
        return SourceFace({}, digest_of(identity))
    if told.kind == "image":
        name, side = told.template, told.size or _SIDE
    else:
        contract = models.load(told.recogniser).spec.inputs[0]
        name, side = contract.template, contract.size or _EMBEDDED_SIDE
    pictures = [(identity.portrait, identity.portrait_five)]
    pictures += list(zip(identity.other_portraits, identity.other_fives, strict=True))
    crops = np.stack([_crop(picture, five, name, side) for picture, five in pictures])
    return SourceFace({name: crops}, digest_of(identity))


def digest_of(identity: PreparedIdentity) -> str:
    """sha256 of the identity's portraits."""
    digest = hashlib.sha256(np.ascontiguousarray(identity.portrait).data)
    digest.update(np.ascontiguousarray(identity.other_portraits).data)
    return digest.hexdigest()


def prepared_source(identity: PreparedIdentity, swapper: Swapper, spec: ModelSpec, models: Loads, key: str) -> Source:
    """The identity in the swapper's own form: what the cast task prepared, or made here where it did not."""
    kept = identity.sources.get(key)
    return kept if kept is not None else swapper.source(source_face(identity, spec, models))


def with_sources(
    identity: PreparedIdentity, recipe: Recipe, models: Loads, cache: SourceCache | None = None
) -> PreparedIdentity:
    """The identity with a prepared source for every neural swapper of the recipe.

    cache: sources by (pictures, model) that earlier jobs of this process made. Raises RecipeError, PolicyError or
    NotFoundError where a network that is needed cannot be had.
    """
    sources = dict(identity.sources)
    for processor in recipe.processors:
        if processor.kind != SWAP or processor.model == MESH_WARP:
            continue
        settings = NeuralSwapSettings.model_validate(processor.settings)
        spec = models.load(processor.model, settings.precision).spec
        if spec.task is not Task.SWAPPER:
            continue
        key = source_key(spec, settings.precision)

        def make(spec: ModelSpec = spec, precision: str | None = settings.precision) -> Source:
            swapper = open_swapper(models, spec, precision=precision)
            return swapper.source(source_face(identity, spec, models))

        wanted = (digest_of(identity), key)
        sources[key] = make() if cache is None else cache.get(wanted, make)
    return replace(identity, sources=sources)


def plate_face(face: Aligned, five: NDArray[np.floating], name: str, side: int) -> SourceFace:
    """A face of the plate as a source, for the weight slider; `five` are its points in the frame."""
    picture = np.asarray(np.rint(face.seen * 255), np.uint8)
    return SourceFace({name: _crop(picture, face.to_crop(five), name, side)[None]}, "")


def _crop(picture: NDArray[np.uint8], five: NDArray[np.float64], name: str, side: int) -> NDArray[np.uint8]:
    affine = similarity(five, template(name, side))
    floats = picture.astype(np.float32)
    crop = warped(floats, affine, (side, side), border=cv2.BORDER_REPLICATE, cubic=scale_of(affine) > 1)
    return np.asarray(np.clip(np.rint(crop), 0, 255), np.uint8)
