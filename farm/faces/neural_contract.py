"""Whether a processor's settings suit the model it names, said from the catalogue alone, before anything is loaded."""

from __future__ import annotations

from pydantic import BaseModel

from farm.errors import RecipeError
from farm.faces.neural_settings import NeuralSettings, NeuralSwapSettings, RestoreSettings, UpscaleSettings
from farm.inference.spec import ModelSpec, Task, is_int8


def check_contract(spec: ModelSpec, settings: BaseModel) -> None:
    """RecipeError where the model is of another task, or has not what a setting asks for."""
    if isinstance(settings, NeuralSwapSettings):
        _require(spec.task is Task.SWAPPER, spec, "It is no swapper.", "Choose one of: farm models list.")
        _check_swap(spec, settings)
    elif isinstance(settings, RestoreSettings):
        _check_restore(spec, settings)
    elif isinstance(settings, UpscaleSettings):
        _require(spec.task is Task.UPSCALER, spec, "It is no upscaler.", "Choose one of: farm models list.")
        scale = int(spec.settings["scale"])
        _require(
            scale == settings.scale,
            spec,
            f"It enlarges {scale} times, not {settings.scale} times.",
            "Correct the recipe's `scale`, or choose another model.",
        )
    precision = getattr(settings, "precision", None)
    if is_int8(precision):
        _check_int8(spec, settings)
        return
    _require(
        precision is None or precision in spec.files,
        spec,
        f"It has no {precision} file.",
        f"It comes as: {', '.join(spec.files) or 'code'}.",
    )


def _check_int8(spec: ModelSpec, settings: BaseModel) -> None:
    of_faces = spec.task in (Task.SWAPPER, Task.RESTORER) and isinstance(settings, NeuralSettings)
    told = spec.task is Task.RESTORER or any(tensor.name == "source" for tensor in spec.inputs)
    _require(
        of_faces and told,
        spec,
        "It is not made in int8: only swappers that are told of an identity and restorers of faces are.",
        "Choose another precision.",
    )
    _require("fp32" in spec.files, spec, "int8 is made of an fp32 file, and it has none.", "Choose another precision.")


def _check_swap(spec: ModelSpec, settings: NeuralSwapSettings) -> None:
    slides = bool(spec.settings.get("weight", False))
    _require(
        settings.weight == 0.5 or slides, spec, "It has no such slider: weight.", "Leave the setting `weight` at .5."
    )
    morphs = any(tensor.kind == "weight" for tensor in spec.inputs)
    _require(settings.morph is None or morphs, spec, "It has no morph factor.", "Leave the setting `morph` out.")
    target = next((tensor for tensor in spec.inputs if tensor.kind == "image" and tensor.name != "source"), None)
    side, limit = target.size if target else 0, int(spec.settings.get("pixel_boost_max", 0))
    _require(
        settings.boost == 1 or side * settings.boost <= limit,
        spec,
        f"A boost of {settings.boost} makes a crop of {side * settings.boost} px; the limit is {limit} px.",
        "Use a smaller boost.",
    )


def _check_restore(spec: ModelSpec, settings: RestoreSettings) -> None:
    restores = spec.task in (Task.RESTORER, Task.UPSCALER)
    _require(restores, spec, "It restores nothing.", "Choose a restorer or an upscaler: farm models list.")
    _require(
        settings.scope == "face" or spec.task is Task.UPSCALER,
        spec,
        "It restores faces; only upscalers work on whole frames.",
        "Leave the scope at 'face', or choose an upscaler.",
    )
    faithful = any(tensor.kind == "weight" for tensor in spec.inputs)
    _require(
        settings.fidelity is None or faithful, spec, "It has no fidelity setting.", "Leave the setting `fidelity` out."
    )


def _require(good: bool, spec: ModelSpec, what: str, do: str) -> None:
    if not good:
        raise RecipeError(what, where=f"model {spec.name}", do=do)
