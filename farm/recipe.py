"""Recipes: which processors run on each frame, in order, with which settings. Plain data, used by every room."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from farm.errors import NotFoundError


class ProcessorSpec(BaseModel):
    """One processor: `kind` names a file in `farm.faces` ("swap", "restore", ...), `model` a catalogue entry."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: str
    model: str
    settings: dict[str, Any] = Field(default_factory=dict)


class Recipe(BaseModel):
    """A named, versioned list of processors. An empty list leaves every frame as it is."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    version: int = 1
    title: str = ""
    processors: tuple[ProcessorSpec, ...] = ()

    @property
    def changes_faces(self) -> bool:
        return bool(self.processors)

    def digest(self) -> str:
        """sha256 of the canonical JSON: two recipes with one digest render the same frames."""
        body = self.model_dump(mode="json", exclude={"title"})
        return hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


PRESETS: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        Recipe(name="passthrough", title="Nothing is changed; for checking the chain frame for frame"),
        Recipe(
            name="swap",
            title="Replace the mapped faces with the bundled mesh-warp swapper",
            processors=(ProcessorSpec(kind="swap", model="mesh-warp"),),
        ),
    )
}


def preset(name: str) -> Recipe:
    """The preset called `name`; NotFoundError names those there are."""
    try:
        return PRESETS[name]
    except KeyError:
        raise NotFoundError(
            f"There is no recipe called {name!r}.", where="recipe", do=f"Choose one of: {', '.join(sorted(PRESETS))}."
        ) from None
