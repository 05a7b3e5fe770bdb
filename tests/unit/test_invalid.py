"""What pydantic finds wrong, in words."""

import pytest
from pydantic import BaseModel, ValidationError, model_validator

from farm.invalid import Fault, faults, in_words


class Inner(BaseModel):
    depth: int


class Asked(BaseModel):
    name: str = ""
    inner: Inner | None = None

    @model_validator(mode="after")
    def _has_a_name(self) -> "Asked":
        if not self.name:
            raise ValueError("it has no name.")
        return self


def wrong(given: object) -> ValidationError:
    with pytest.raises(ValidationError) as caught:
        Asked.model_validate(given)
    return caught.value


def test_a_rule_of_our_own_is_said_as_we_wrote_it_and_named_by_the_whole() -> None:
    assert faults(wrong({})) == [Fault("", "it has no name")]
    assert in_words(wrong({}), "mapping") == "mapping: it has no name"


def test_a_field_is_named_by_its_path_and_what_was_given_is_not_repeated() -> None:
    words = in_words(wrong({"name": "n", "inner": {"depth": "secret"}}), "body")
    assert words.startswith("inner.depth: ")
    assert "secret" not in words
