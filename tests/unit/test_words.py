"""Numbers in sentences."""

from __future__ import annotations

import pytest

from farm.errors import InputError, NotFoundError, unknown
from farm.words import counted


@pytest.mark.parametrize(
    ("number", "many", "words"),
    [(0, "", "0 frames"), (1, "", "1 frame"), (2, "", "2 frames"), (1, "people", "1 frame"), (3, "people", "3 people")],
)
def test_one_is_one_and_all_else_is_many(number: int, many: str, words: str) -> None:
    assert counted(number, "frame", many) == words


def test_who_names_what_does_not_exist_reads_what_does() -> None:
    error = unknown(InputError, "recipe", "swop", ["restore", "swap"])
    assert str(error) == "recipe: There is no recipe called 'swop'. Choose one of: restore, swap."
    assert str(unknown(NotFoundError, "identity", "x", [], where="mapping")).startswith("mapping: There is no identity")
    assert "(there is none)" in unknown(NotFoundError, "identity", "x", []).do
