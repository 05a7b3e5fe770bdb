"""The recipes that this farm offers, and why it cannot render some of them."""

from __future__ import annotations

from farm.api.services import Services
from farm.errors import FarmError
from farm.recipe import PRESETS, Recipe


def offered(services: Services) -> list[tuple[Recipe, str]]:
    """Every preset with the reason that a job with it would be refused, "" where it would not."""
    return [(recipe, _refusal(services, recipe)) for recipe in PRESETS.values()]


def _refusal(services: Services, recipe: Recipe) -> str:
    try:
        services.check_recipe(recipe)
    except FarmError as error:
        return str(error)
    return ""
