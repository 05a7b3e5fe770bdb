"""Which recipes and plates the card's path takes; of all others it says why not, and they are rendered in memory."""

from __future__ import annotations

from farm.errors import FarmError
from farm.faces.cuda.networks import Weights
from farm.faces.cuda.surface import Surface
from farm.faces.neural_settings import NeuralSwapSettings, RestoreSettings
from farm.inference.spec import ModelSpec, Task, is_int8
from farm.media.facts import PlateFacts
from farm.media.planes import planar_format
from farm.media.tonemap import tone_map_of
from farm.recipe import MESH_WARP, RESTORE, SWAP, DetectorSpec, ProcessorSpec, Recipe

_DEPTHS = {"yuv420p": 8, "yuv420p10le": 10}


def recipe_misfit(recipe: Recipe, models: Weights) -> str:
    """Why the recipe cannot be rendered on the card; "" where it can."""
    swaps = [spec for spec in recipe.processors if spec.kind == SWAP]
    restores = [spec for spec in recipe.processors if spec.kind == RESTORE]
    if not recipe.processors or recipe.processors != (*swaps[:1], *restores[:1]):
        return "the card's path takes one swapper, one restorer of faces behind it, and nothing else"
    if recipe.detector != DetectorSpec():
        return "the card's path looks with the bundled detector in its plain settings"
    misfits = [_swap_misfit(spec, models) for spec in swaps] + [_restore_misfit(spec, models) for spec in restores]
    return next((why for why in misfits if why), "")


def _swap_misfit(spec: ProcessorSpec, models: Weights) -> str:
    if spec.model == MESH_WARP:
        return ""
    settings = NeuralSwapSettings.model_validate(spec.settings)
    if is_int8(settings.precision):
        return "networks in int8 are run by the processor"
    if settings.weight != 0.5:
        return "the weight slider asks for an embedding of each face of the plate"
    return _network_misfit(models.catalogue.spec(spec.model))


def _restore_misfit(spec: ProcessorSpec, models: Weights) -> str:
    settings = RestoreSettings.model_validate(spec.settings)
    if spec.on_frames:
        return "whole frames are restored by the processor"
    if is_int8(settings.precision):
        return "networks in int8 are run by the processor"
    model = models.catalogue.spec(spec.model)
    pictures = [tensor for tensor in (*model.inputs, *model.outputs) if tensor.kind == "image"]
    if model.task is not Task.RESTORER or [tensor.layout for tensor in pictures] != ["NCHW", "NCHW"]:
        return f"{model.name} is no restorer that takes and gives pictures channel by channel"
    return ""


def _network_misfit(spec: ModelSpec) -> str:
    told = next((tensor for tensor in spec.inputs if tensor.name == "source"), None)
    if told is None or told.kind != "embedding" or {tensor.name for tensor in spec.inputs} != {"source", "target"}:
        return f"{spec.name} is not told of the identity by one vector"
    pictures = [spec.input("target"), *(tensor for tensor in spec.outputs if tensor.kind == "image")]
    if len(pictures) != 2 or any(tensor.layout != "NCHW" for tensor in pictures):
        return f"{spec.name} does not take and give pictures channel by channel"
    return ""


def plate_misfit(facts: PlateFacts) -> str:
    """Why frames of the plate cannot be worked on there; "" where they can."""
    video = facts.video
    if planar_format(video.sample_format).name not in _DEPTHS:
        return f"frames of {video.sample_format} have no form on the card"
    if video.rotation or float(video.sample_aspect_ratio or 1) != 1.0 or _mirrored(facts):
        return "the plate is turned, mirrored or has no square pixels"
    if not tone_map_of(video.colour).plain or video.colour.transfer == "smpte2084":
        return "the plate's colours are brought to those that networks know by the processor"
    try:
        surface_of(facts)
    except FarmError as error:
        return error.what.rstrip(".")
    return ""


def surface_of(facts: PlateFacts) -> Surface:
    """The surface of the plate's frames; InputError where they have none."""
    video = facts.video
    depth = _DEPTHS.get(planar_format(video.sample_format).name, 0)
    return Surface(video.width, video.height, depth, video.colour)


def _mirrored(facts: PlateFacts) -> bool:
    matrix = facts.video.display_matrix
    return matrix is not None and matrix[0] * matrix[4] - matrix[1] * matrix[3] < 0
