"""Who becomes whom, where and when, in the words of the command line."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import click
from pydantic import ValidationError

from farm.api.schemas import DEFAULT_LABEL
from farm.errors import InputError
from farm.faces.extent import Extent
from farm.faces.mapping import MappingRequest
from farm.invalid import faults

_TIME = re.compile(r"(?:(?:(\d+):)?(\d+):)?(\d+(?:\.\d+)?)")
_EXTENT = 'times ("12.5-1:40", "90-") or a region ("X0,Y0,X1,Y1", a polygon "X,Y,X,Y,X,Y", with "@12.5-1:40" its times)'

OPTIONS = (
    click.option(
        "--map", "mapping", multiple=True, metavar="WHO[=NAME]",
        help="Who gets the identity: `lead` (most screen time), `all`, or a cast member's id, each with =NAME.",
    ),
    click.option(
        "--threshold", type=click.FloatRange(0, 1, min_open=True, max_open=True),
        help="Likeness (cosine) from which a face is taken for a person; default .3, for --replace .363.",
    ),
    click.option(
        "--include", multiple=True, metavar="PART",
        help=f"Change faces here alone: {_EXTENT}. Pixels of the plate as it is shown; again for more.",
    ),
    click.option("--exclude", multiple=True, metavar="PART", help="Leave faces alone here; written like --include."),
)  # fmt: skip

Command = Callable[..., Any]


def saying_who(command: Command) -> Command:
    """Add the options of a mapping to a command."""
    made: Command = reduce(lambda wrapped, option: option(wrapped), reversed(OPTIONS), command)
    return made


def mapping_request(
    given: Sequence[str],
    *,
    references: dict[str, str] | None = None,
    threshold: float | None = None,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    first: str = DEFAULT_LABEL,
) -> dict[str, Any] | None:
    """The mapping that was asked for; None where nothing was said. `first`: the identity where none is named.

    Raises InputError naming the option.
    """
    asked = {"mode": "reference", "references": references} if references else _whom(given, first)
    parts = {
        "include": [extent(text, "--include") for text in include],
        "exclude": [extent(text, "--exclude") for text in exclude],
    }
    limits = {name: found for name, found in parts.items() if found}
    if asked is None and not limits and threshold is None:
        return None
    wanted = {**(asked or {"mode": "lead", "identity": first}), **limits}
    if threshold is not None:
        wanted["threshold"] = threshold
    request = MappingRequest.model_validate(wanted)
    return {"mode": request.mode.value, **request.model_dump(mode="json", exclude_defaults=True)}


def extent(text: str, option: str) -> Extent:
    """A part of the plate: START-END, X0,Y0,X1,Y1, X,Y,X,Y,X,Y, each of the last two with @START-END."""
    region, at, times = text.partition("@") if "," in text else ("", "", text)
    fields: dict[str, Any] = {}
    if times or at or not region:
        start, dash, end = times.partition("-")
        if not dash or not (start or end):
            raise _not_a_part(text, option)
        fields |= {"start": _seconds(start, text, option) if start else 0.0}
        fields |= {"end": _seconds(end, text, option)} if end else {}
    if region:
        try:
            numbers = [float(number) for number in region.split(",")]
        except ValueError:
            raise _not_a_part(text, option) from None
        if len(numbers) == 4:
            fields["box"] = tuple(numbers)
        elif len(numbers) % 2 == 0:
            fields["polygon"] = tuple(zip(numbers[::2], numbers[1::2], strict=True))
        else:
            raise _not_a_part(text, option)
    try:
        return Extent.model_validate(fields)
    except ValidationError as error:
        why = faults(error)[0].why
        raise InputError(f"{text!r} is no part of a plate: {why}.", where=option, do="Correct it.") from None


def _whom(given: Sequence[str], default: str) -> dict[str, Any] | None:
    if not given:
        return None
    pairs = [(who, name or default) for who, _, name in (text.partition("=") for text in given)]
    first, identity = pairs[0]
    if first in ("lead", "all"):
        if len(pairs) > 1:
            raise InputError(f"{first!r} says it all.", where="--map", do="Give it alone, or name cast members.")
        return {"mode": first, "identity": identity}
    return {"mode": "cast", "assignments": dict(pairs)}


def _seconds(text: str, whole: str, option: str) -> float:
    found = _TIME.fullmatch(text)
    if found is None:
        raise _not_a_part(whole, option)
    hours, minutes, seconds = found.groups(default="0")
    return int(hours) * 3600 + int(minutes) * 60 + float(seconds)


def _not_a_part(text: str, option: str) -> InputError:
    return InputError(f"{text!r} is no part of a plate.", where=option, do=f"Give {_EXTENT}.")
