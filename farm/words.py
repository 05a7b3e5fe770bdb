"""Words for people that depend on a number."""

from __future__ import annotations


def counted(number: int, one: str, many: str = "") -> str:
    """ "1 frame", "2 frames"; `many` where it is not `one` with an s."""
    return f"{number} {one if number == 1 else many or one + 's'}"
