"""Whether a deployment can render a recipe: settings, contracts, licences and weights, asked before a job is made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from farm.errors import PolicyError, RecipeError
from farm.faces.calibration import wants_int8
from farm.faces.finder import check_detector, detect_settings
from farm.faces.neural_contract import check_contract
from farm.faces.neural_settings import NeuralSettings
from farm.faces.processors import check_settings, settings_of
from farm.inference.catalogue import Catalogue
from farm.inference.deployment import Deployment
from farm.inference.licences import LicencePolicy
from farm.inference.spec import ModelSpec
from farm.recipe import ProcessorSpec, Recipe


def check_recipe(recipe: Recipe, deployment: Deployment, allowed_licences: Iterable[str] = ()) -> None:
    """Raise unless the recipe can be rendered here. Nothing is loaded.

    RecipeError: an unknown kind, a wrong setting, a model of another task, one that is not built. NotFoundError: a
    model that is not in the catalogue. PolicyError: a licence that is not allowed or not accepted, weights whose
    checksum nobody knows, weights that are neither on this machine nor in the farm's store.
    """
    check_settings(recipe)
    if wants_int8(recipe) and not recipe.puts_in_faces:
        raise RecipeError(
            "int8 is calibrated while the people of the plate are looked for, and this recipe puts in nobody.",
            where=f"recipe {recipe.name}",
            do="Choose another precision, or a recipe with a swap.",
        )
    detector = recipe.detector.model if recipe.changes_faces else None
    if detector is not None:
        detect_settings(recipe.detector)
        check_detector(deployment.catalogue.spec(detector))
    policy = LicencePolicy.of(allowed_licences, deployment.acceptances.by_name())
    for processor in recipe.processors:
        check_contract(deployment.catalogue.spec(processor.model), settings_of(processor))
    for name, precision in named_models(recipe):
        for spec in deployment.catalogue.with_needs(name):
            _check_built(spec)
            policy.check(spec)
            if not spec.builtin:
                _check_weights(spec, precision if spec.name == name else None, deployment)


def named_models(recipe: Recipe) -> Iterator[tuple[str, str | None]]:
    """Catalogue names that a recipe loads, with their precision (None: the default); its settings are checked."""
    if recipe.changes_faces:
        yield recipe.detector.model, None
    for processor in recipe.processors:
        yield from models_of(processor)


def models_for(recipe: Recipe, catalogue: Catalogue) -> dict[str, ModelSpec]:
    """Every entry that a render by the recipe may load: those it names, what these need, and the bundled ones."""
    known = {spec.name for spec in catalogue}
    named = {name for name, _ in named_models(recipe)} & known
    used = {spec.name: spec for name in named for spec in catalogue.with_needs(name)}
    return used | {spec.name: spec for spec in catalogue if spec.bundled}


def models_of(processor: ProcessorSpec) -> Iterator[tuple[str, str | None]]:
    """Catalogue names that a processor loads by its own settings, with their precision (None: the default)."""
    settings = settings_of(processor)
    yield processor.model, getattr(settings, "precision", None)
    if isinstance(settings, NeuralSettings):
        yield from ((name, None) for name in settings.mask.models)


def _check_built(spec: ModelSpec) -> None:
    if spec.not_built:
        raise RecipeError(
            "It is listed, but the farm has no processor for it yet: not built.",
            where=f"model {spec.name}",
            do="Choose a model that `farm models list` does not mark as not built.",
        )


def _check_weights(spec: ModelSpec, precision: str | None, deployment: Deployment) -> None:
    file = spec.file(precision)
    if file.sha256 is None:
        raise PolicyError(
            f"The catalogue knows no checksum for {file.file}, so it is never run.",
            where=f"model {spec.name}",
            do="Copy the entry into your own catalogue folder (FARM_MODELS_DIR) with the sha256 you trust.",
        )
    if not deployment.library.available(spec.name, precision):
        raise PolicyError(
            "Its weights are neither on this machine nor in the farm's store.",
            where=f"model {spec.name}",
            do=f"Run: farm models pull {spec.name} --share",
        )
