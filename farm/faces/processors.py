"""Processors by the recipe's kind: a new one is a class and a line in REGISTRY."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass
from typing import Protocol

from pydantic import BaseModel, ValidationError

from farm.errors import RecipeError
from farm.faces import meshwarp
from farm.faces.bankpath import BankPath, Shares
from farm.faces.dressing import dressed
from farm.faces.identity import PreparedIdentity
from farm.faces.meshwarp import SwapSettings
from farm.faces.network import Networks
from farm.faces.neural_frames import FrameProcessor, FrameRestore, FrameUpscale
from farm.faces.neural_processors import FaceRestore, NeuralSwap
from farm.faces.neural_settings import NeuralSettings, NeuralSwapSettings, RestoreSettings, UpscaleSettings
from farm.faces.neural_source import catalogue_of
from farm.faces.report import Outcome
from farm.faces.sharpness import clear_enough
from farm.faces.target import Patch, Target
from farm.invalid import faults
from farm.media.frame import Frame
from farm.recipe import MESH_WARP, RESTORE, SWAP, UPSCALE, ProcessorSpec, Recipe


@dataclass(frozen=True, slots=True)
class Work:
    """One face of one frame, and who is to be put in: nobody where a recipe only restores."""

    target: Target
    identity: PreparedIdentity | None
    identity_name: str


class FaceProcessor(Protocol):
    """Changes one face of a frame, in place. Called from several threads, for different frames."""

    def apply(self, frame: Frame, work: Work) -> tuple[Outcome, Patch | None]: ...


FaceMaker = Callable[[ProcessorSpec, Networks], FaceProcessor]
FrameMaker = Callable[[ProcessorSpec, Networks], FrameProcessor]


class MeshWarpSwap:
    """The bundled swapper as a processor."""

    def __init__(self, settings: SwapSettings) -> None:
        self._settings = settings
        self._paths: dict[str, BankPath] = {}

    def apply(self, frame: Frame, work: Work) -> tuple[Outcome, Patch | None]:
        if work.identity is None:
            return Outcome.NOT_MAPPED, None
        refused = self.refused(work.target)
        if refused is not None:
            return refused, None
        shares = self.shares(work.target, work.identity, work.identity_name)
        shown = work.identity if shares is None else dressed(work.identity, shares)
        patch = meshwarp.swap(frame, work.target, shown, self._settings)
        if patch is None:
            return Outcome.FAILED, None
        return (Outcome.SWAPPED if patch.mask.any() else Outcome.COVERED), patch

    def refused(self, target: Target) -> Outcome | None:
        """Why the face is left as it is; None where it is not."""
        if target.size < self._settings.smallest:
            return Outcome.TOO_SMALL
        if clear_enough(target.sharpness, self._settings.min_sharpness) <= 0:
            return Outcome.TOO_BLURRED
        if meshwarp.believable(target.pose, self._settings) <= 0:
            return Outcome.TOO_SIDEWAYS
        return None

    def shares(self, target: Target, identity: PreparedIdentity, name: str) -> Shares | None:
        """Which frames of the identity's bank this frame shows; None where it has none, or nobody saw what to fit."""
        if len(identity.bank) < 2 or target.traits is None:
            return None
        path = self._paths.get(name)
        if path is None:
            path = self._paths[name] = BankPath(identity.bank)
        return path.shares(target.traits, target.now)


class CatalogueSwap:
    """A neural swapper as a processor."""

    def __init__(self, swap: NeuralSwap) -> None:
        self._swap = swap

    def apply(self, frame: Frame, work: Work) -> tuple[Outcome, Patch | None]:
        if work.identity is None:
            return Outcome.NOT_MAPPED, None
        return self._swap.apply(frame, work.target, work.identity, work.identity_name)


class CatalogueRestore:
    """A restorer as a processor."""

    def __init__(self, restore: FaceRestore) -> None:
        self._restore = restore

    def apply(self, frame: Frame, work: Work) -> tuple[Outcome, Patch | None]:
        return self._restore.apply(frame, work.target)


def _swap(spec: ProcessorSpec, networks: Networks) -> FaceProcessor:
    if spec.model == MESH_WARP:
        return MeshWarpSwap(SwapSettings.model_validate(spec.settings))
    settings = NeuralSwapSettings.model_validate(spec.settings)
    return CatalogueSwap(NeuralSwap(catalogue_of(networks, spec.model), spec.model, settings))


def _restore_frame(spec: ProcessorSpec, networks: Networks) -> FrameProcessor:
    return FrameRestore(catalogue_of(networks, spec.model), spec.model, RestoreSettings.model_validate(spec.settings))


def _restore(spec: ProcessorSpec, networks: Networks) -> FaceProcessor:
    settings = RestoreSettings.model_validate(spec.settings)
    return CatalogueRestore(FaceRestore(catalogue_of(networks, spec.model), spec.model, settings))


def _upscale(spec: ProcessorSpec, networks: Networks) -> FrameProcessor:
    return FrameUpscale(catalogue_of(networks, spec.model), spec.model, UpscaleSettings.model_validate(spec.settings))


REGISTRY: MappingOf[str, FaceMaker] = {SWAP: _swap, RESTORE: _restore}
FRAME_REGISTRY: MappingOf[str, FrameMaker] = {RESTORE: _restore_frame, UPSCALE: _upscale}
"""Makers by kind, for faces and for whole frames."""
KINDS = (SWAP, RESTORE, UPSCALE)


def settings_of(spec: ProcessorSpec) -> BaseModel:
    """The checked settings of a processor; pydantic's ValidationError for wrong ones, KeyError for a kind unknown."""
    kinds: dict[str, type[BaseModel]] = {
        SWAP: SwapSettings if spec.model == MESH_WARP else NeuralSwapSettings,
        RESTORE: RestoreSettings,
        UPSCALE: UpscaleSettings,
    }
    return kinds[spec.kind].model_validate(spec.settings)


def check_settings(recipe: Recipe) -> None:
    """RecipeError for a kind or setting that does not exist, or an order that cannot work. Loads nothing."""
    frames_from = len(recipe.processors)
    for position, spec in enumerate(recipe.processors):
        where = f"recipe {recipe.name}, processor {position + 1} ({spec.kind})"
        if spec.kind not in KINDS:
            raise RecipeError(
                f"There is no processor of kind {spec.kind!r}.", where=where, do=f"Use one of: {', '.join(KINDS)}."
            )
        try:
            settings_of(spec)
        except ValidationError as error:
            first = faults(error)[0]
            raise RecipeError(
                f"The setting {first.field!r} is wrong: {first.why}.", where=where, do="Correct it or leave it out."
            ) from error
        if spec.on_frames:
            frames_from = min(frames_from, position)
        elif position > frames_from:
            raise RecipeError(
                "It works on faces and comes after one that works on whole frames.",
                where=where,
                do="Put processors of whole frames (upscale, restore with scope 'frame') last.",
            )


def fits_forms(recipe: Recipe) -> bool:
    """Whether the forms of the identities are to be fitted; the settings are checked already."""
    swaps = (settings_of(spec) for spec in recipe.processors if spec.kind == SWAP)
    return any(
        isinstance(settings, SwapSettings) and settings.fitted and settings.proportions > 0 for settings in swaps
    )


@dataclass(frozen=True, slots=True)
class Sight:
    """What must be seen of faces beside their places: see `Analyst`."""

    skin: bool
    hands: bool
    fine: bool


def sight_of(recipe: Recipe) -> Sight:
    """What the recipe's processors need to see of each face; the settings are checked already."""
    faces = [(spec, settings_of(spec)) for spec in recipe.processors if not spec.on_frames]
    painted = any(spec.model == MESH_WARP for spec, _ in faces)
    kept = any(settings.mask.hands for _, settings in faces if isinstance(settings, NeuralSettings))
    return Sight(skin=painted, hands=painted or kept, fine=painted)


@dataclass(frozen=True, slots=True)
class Processors:
    """A recipe's processors, ready: those of faces, then those of whole frames, and what those of faces must see."""

    faces: tuple[FaceProcessor, ...]
    frames: tuple[FrameProcessor, ...]
    sight: Sight

    @property
    def scale(self) -> int:
        """By how much frames grow."""
        grown = 1
        for processor in self.frames:
            grown *= processor.scale
        return grown


def processors_of(recipe: Recipe, networks: Networks) -> Processors:
    """The recipe's processors, in order, with their networks loaded.

    Raises RecipeError for a kind, model or setting that does not exist; PolicyError and NotFoundError where a model may
    not be used here or has no weights.
    """
    check_settings(recipe)
    faces: list[FaceProcessor] = []
    frames: list[FrameProcessor] = []
    for spec in recipe.processors:
        if spec.on_frames:
            frames.append(FRAME_REGISTRY[spec.kind](spec, networks))
        else:
            faces.append(REGISTRY[spec.kind](spec, networks))
    return Processors(tuple(faces), tuple(frames), sight_of(recipe))
