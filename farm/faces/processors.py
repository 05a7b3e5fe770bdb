"""Processors by the recipe's kind: a new one is a class and a line in REGISTRY."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass
from typing import Protocol

from pydantic import ValidationError

from farm.errors import RecipeError
from farm.faces import meshwarp
from farm.faces.identity import PreparedIdentity
from farm.faces.meshwarp import Patch, SwapSettings, Target
from farm.faces.network import Networks
from farm.faces.report import Outcome
from farm.media.frame import Frame
from farm.recipe import ProcessorSpec, Recipe


@dataclass(frozen=True, slots=True)
class Work:
    """One mapped face of one frame, and who is to be put in."""

    target: Target
    identity: PreparedIdentity
    identity_name: str


class FaceProcessor(Protocol):
    """Changes one face of a frame, in place. Called from several threads, for different frames."""

    def apply(self, frame: Frame, work: Work) -> tuple[Outcome, Patch | None]: ...


Maker = Callable[[ProcessorSpec, Networks], FaceProcessor]


class MeshWarpSwap:
    """The bundled swapper as a processor."""

    def __init__(self, settings: SwapSettings) -> None:
        self._settings = settings

    def apply(self, frame: Frame, work: Work) -> tuple[Outcome, Patch | None]:
        if work.target.size < self._settings.smallest:
            return Outcome.TOO_SMALL, None
        if meshwarp.believable(work.target.pose, self._settings) <= 0:
            return Outcome.TOO_SIDEWAYS, None
        patch = meshwarp.swap(frame, work.target, work.identity, self._settings)
        if patch is None:
            return Outcome.FAILED, None
        return (Outcome.SWAPPED if patch.mask.any() else Outcome.COVERED), patch


def _swap(spec: ProcessorSpec, networks: Networks) -> FaceProcessor:
    if spec.model != "mesh-warp":
        raise RecipeError(
            f"There is no swapper for the model {spec.model!r} here.", where="recipe", do="Use the model 'mesh-warp'."
        )
    return MeshWarpSwap(SwapSettings.model_validate(spec.settings))


REGISTRY: MappingOf[str, Maker] = {"swap": _swap}


def processors_of(recipe: Recipe, networks: Networks) -> list[FaceProcessor]:
    """The recipe's processors, in order, with their networks loaded.

    Raises RecipeError for a kind, model or setting that does not exist.
    """
    made: list[FaceProcessor] = []
    for spec in recipe.processors:
        if spec.kind not in REGISTRY:
            raise RecipeError(
                f"There is no processor of kind {spec.kind!r}.",
                where=f"recipe {recipe.name}",
                do=f"Use one of: {', '.join(sorted(REGISTRY))}.",
            )
        try:
            made.append(REGISTRY[spec.kind](spec, networks))
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(str(part) for part in first["loc"])
            raise RecipeError(
                f"The setting {field!r} of the processor {spec.kind!r} is wrong: {first['msg']}.",
                where=f"recipe {recipe.name}",
                do="Correct it or leave it out.",
            ) from error
    return made
