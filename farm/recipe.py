"""Recipes: which processors run on each frame, in order, with which settings. Plain data, used by every room."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from math import prod
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from farm.errors import NotFoundError, RecipeError, unknown

SWAP, RESTORE, UPSCALE = "swap", "restore", "upscale"
"""Kinds of processors."""

DETECT = "detect"
"""Under which settings name the detector: its model, and how it searches."""

MESH_WARP = "mesh-warp"
"""The bundled swapper, which is code and not a network."""

YUNET = "yunet"
"""The bundled detector."""


class ProcessorSpec(BaseModel):
    """One processor: `kind` names a file in `farm.faces` ("swap", "restore", ...), `model` a catalogue entry."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: str
    model: str
    settings: dict[str, Any] = Field(default_factory=dict)

    @property
    def on_frames(self) -> bool:
        """Whether it works on whole frames and not on faces."""
        return self.kind == UPSCALE or (self.kind == RESTORE and self.settings.get("scope") == "frame")


class DetectorSpec(BaseModel):
    """What finds the faces: a catalogue entry, and settings of the search (see `farm.faces.finder`)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str = YUNET
    settings: dict[str, Any] = Field(default_factory=dict)


class Recipe(BaseModel):
    """A named, versioned list of processors, and what finds the faces. An empty list leaves every frame as it is."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    version: int = 1
    title: str = ""
    processors: tuple[ProcessorSpec, ...] = ()
    detector: DetectorSpec = DetectorSpec()

    @model_serializer(mode="wrap")
    def _plain(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without the default detector, so that recipes which do not name one keep their digest."""
        body: dict[str, Any] = dump(self)
        if self.detector == DetectorSpec():
            body.pop("detector", None)
        return body

    @property
    def changes_faces(self) -> bool:
        """Whether any face is made anew, by putting another in or by restoring it: such a result is labelled."""
        return any(not processor.on_frames for processor in self.processors)

    @property
    def puts_in_faces(self) -> bool:
        """Whether an identity is needed."""
        return any(processor.kind == SWAP for processor in self.processors)

    def as_is(self) -> Recipe:
        """What shows the plate's own frames at the size of this recipe's: nothing but its upscalers."""
        return Recipe(name="passthrough", processors=tuple(p for p in self.processors if p.kind == UPSCALE))

    @property
    def scale(self) -> int:
        """By how much frames grow."""
        return prod(int(p.settings.get("scale", 1)) for p in self.processors if p.kind == UPSCALE)

    def digest(self) -> str:
        """sha256 of the canonical JSON: two recipes with one digest render the same frames."""
        body = self.model_dump(mode="json", exclude={"title"})
        return hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


_SWAPPERS = {
    "inswapper": ("inswapper-128", "inswapper 128"),
    "hyperswap": ("hyperswap-1a-256", "HyperSwap 1a"),
    "hyperswap-1b": ("hyperswap-1b-256", "HyperSwap 1b"),
    "hyperswap-1c": ("hyperswap-1c-256", "HyperSwap 1c"),
    "simswap": ("simswap-256", "SimSwap 256"),
    "simswap-512": ("simswap-unofficial-512", "SimSwap 512"),
    "ghost": ("ghost-1-256", "GHOST 1"),
    "ghost-2": ("ghost-2-256", "GHOST 2"),
    "ghost-3": ("ghost-3-256", "GHOST 3"),
    "hififace": ("hififace-unofficial-256", "HiFiFace"),
    "instyle-a": ("instyle-256-a", "InStyleSwapper A"),
    "instyle-b": ("instyle-256-b", "InStyleSwapper B"),
    "instyle-c": ("instyle-256-c", "InStyleSwapper C"),
    "blendswap": ("blendswap-256", "BlendSwap"),
    "uniface": ("uniface-256", "UniFace"),
    "dfm": ("dfm", "a person's own autoencoder (DFM)"),
}
_RESTORERS = {
    "gfpgan": ("gfpgan-1.4", "GFPGAN 1.4"),
    "codeformer": ("codeformer", "CodeFormer"),
    "gpen": ("gpen-bfr-512", "GPEN 512"),
    "restoreformer": ("restoreformer-plus-plus", "RestoreFormer++"),
}
_UPSCALERS = {
    "span": ("span-x2", 2, "SPAN"),
    "real-esrgan": ("real-esrgan-x2", 2, "Real-ESRGAN"),
    "real-esrgan-x4": ("real-esrgan-x4", 4, "Real-ESRGAN"),
}
_COMBINED = ("inswapper", "hyperswap", "simswap", "ghost")


def _swapper(name: str) -> ProcessorSpec:
    return ProcessorSpec(kind=SWAP, model=_SWAPPERS[name][0])


def _restorer(name: str) -> ProcessorSpec:
    return ProcessorSpec(kind=RESTORE, model=_RESTORERS[name][0])


def _upscaler(name: str) -> ProcessorSpec:
    model, scale, _ = _UPSCALERS[name]
    return ProcessorSpec(kind=UPSCALE, model=model, settings={"scale": scale})


_MESH_WARP_SWAP = ProcessorSpec(kind=SWAP, model=MESH_WARP)
_ENHANCE = ProcessorSpec(kind=RESTORE, model="span-x2", settings={"scope": "frame", "blend": 0.8})

PRESETS: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        Recipe(name="passthrough", title="Nothing is changed; for checking the chain frame for frame"),
        Recipe(
            name="swap",
            title="Replace the mapped faces with the bundled mesh-warp swapper",
            processors=(_MESH_WARP_SWAP,),
        ),
        *(
            Recipe(name=f"swap-{name}", title=f"Replace the mapped faces with {title}", processors=(_swapper(name),))
            for name, (_, title) in _SWAPPERS.items()
        ),
        *(
            Recipe(name=f"restore-{name}", title=f"Restore every face with {title}", processors=(_restorer(name),))
            for name, (_, title) in _RESTORERS.items()
        ),
        Recipe(
            name="restore-frame",
            title="Clean the whole picture with the bundled SPAN, at its own size",
            processors=(_ENHANCE,),
        ),
        *(
            Recipe(
                name=f"upscale-{name}",
                title=f"Enlarge the picture {scale} times with {title}",
                processors=(_upscaler(name),),
            )
            for name, (_, scale, title) in _UPSCALERS.items()
        ),
        Recipe(
            name="swap+upscale",
            title="The bundled swapper, then the bundled upscaler: twice the picture's size",
            processors=(_MESH_WARP_SWAP, _upscaler("span")),
        ),
        *(
            Recipe(
                name=f"swap+{name}",
                title=f"The bundled swapper, then {title} on the mapped faces",
                processors=(_MESH_WARP_SWAP, _restorer(name)),
            )
            for name, (_, title) in _RESTORERS.items()
        ),
        *(
            Recipe(
                name=f"swap-{name}+{restorer}",
                title=f"{_SWAPPERS[name][1]}, then {title} on the mapped faces",
                processors=(_swapper(name), _restorer(restorer)),
            )
            for name in _COMBINED
            for restorer, (_, title) in _RESTORERS.items()
        ),
    )
}


def tuned(recipe: Recipe, settings: Mapping[str, Mapping[str, Any]]) -> Recipe:
    """The recipe with other settings for its processors of a kind, or for its detector ("detect", with its `model`).

    Raises RecipeError for a kind that it has not.
    """
    for kind in settings:
        if kind == DETECT:
            if not recipe.changes_faces:
                raise RecipeError(
                    "It looks for no faces.", where=f"recipe {recipe.name}", do="Leave out the settings of `detect`."
                )
        elif kind not in {processor.kind for processor in recipe.processors}:
            raise RecipeError(
                f"It has no processor of kind {kind!r} to be set.",
                where=f"recipe {recipe.name}",
                do=f"It has: {', '.join(processor.kind for processor in recipe.processors) or 'none'}.",
            )
    processors = tuple(
        processor.model_copy(update={"settings": {**processor.settings, **settings.get(processor.kind, {})}})
        for processor in recipe.processors
    )
    search = {**recipe.detector.settings, **settings.get(DETECT, {})}
    model = str(search.pop("model", recipe.detector.model))
    detector = DetectorSpec(model=model, settings=search)
    return recipe.model_copy(update={"processors": processors, "detector": detector})


def preset(name: str) -> Recipe:
    """The preset called `name`; NotFoundError names those there are."""
    try:
        return PRESETS[name]
    except KeyError:
        raise unknown(NotFoundError, "recipe", name, sorted(PRESETS)) from None
