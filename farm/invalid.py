"""What pydantic found wrong, in the words of the farm's messages."""

from __future__ import annotations

from typing import NamedTuple

from pydantic import ValidationError

_SPOKEN = 5
"""How many faults one message names."""


class Fault(NamedTuple):
    """`field` is the dotted path, "" for the whole; `why` has no full stop."""

    field: str
    why: str


def faults(error: ValidationError) -> list[Fault]:
    """Every fault. What was given is not repeated: it may be a secret or a name."""
    return [
        Fault(".".join(str(part) for part in item["loc"]), item["msg"].removeprefix("Value error, ").rstrip("."))
        for item in error.errors(include_input=False, include_url=False)
    ]


def in_words(error: ValidationError, whole: str) -> str:
    """The first few faults as "field: why; field: why"; `whole` names what has no field."""
    return "; ".join(f"{fault.field or whole}: {fault.why}" for fault in faults(error)[:_SPOKEN])
