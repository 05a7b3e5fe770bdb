"""Who becomes whom, where and when, in words."""

from typing import Any

import pytest

from farm.cli.who import extent, mapping_request
from farm.errors import InputError
from farm.faces.extent import Extent
from farm.faces.mapping import MappingRequest


def test_mappings_in_words() -> None:
    assert mapping_request(()) is None
    assert mapping_request(("lead",)) == {"mode": "lead", "identity": "identity"}
    assert mapping_request(("all=villain",)) == {"mode": "all", "identity": "villain"}
    assert mapping_request(("p1=a", "p2=b")) == {"mode": "cast", "assignments": {"p1": "a", "p2": "b"}}
    with pytest.raises(InputError):
        mapping_request(("lead", "p2=b"))


def test_parts_and_thresholds_go_with_any_mapping_and_alone_with_the_lead() -> None:
    found = mapping_request((), first="villain", threshold=0.4, include=("1-2",), exclude=("0,0,9,9",))
    assert found == {
        "mode": "lead",
        "identity": "villain",
        "threshold": 0.4,
        "include": [{"start": 1.0, "end": 2.0}],
        "exclude": [{"box": [0.0, 0.0, 9.0, 9.0]}],
    }
    assert MappingRequest.model_validate(found).exclude == (Extent(box=(0, 0, 9, 9)),)
    referred = mapping_request((), references={"replaced": "identity"}, threshold=0.5)
    assert referred == {"mode": "reference", "references": {"replaced": "identity"}, "threshold": 0.5}


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("12.5-1:40", {"start": 12.5, "end": 100}),
        ("1:02:03-", {"start": 3723}),
        ("-4", {"end": 4}),
        ("1,2,30,40", {"box": (1, 2, 30, 40)}),
        ("1,2,30,40@5-6", {"box": (1, 2, 30, 40), "start": 5, "end": 6}),
        ("0,0,10,0,5,8@90-", {"polygon": ((0, 0), (10, 0), (5, 8)), "start": 90}),
    ],
)
def test_parts_of_a_plate_in_words(text: str, fields: dict[str, Any]) -> None:
    assert extent(text, "--include") == Extent(**fields)


@pytest.mark.parametrize(
    "text", ["", "-", "soon-later", "5", "1,2,3", "1,2,3,4,5", "9,9,1,1", "1,2,x,4", "5-2", "1,2,3,4@"]
)
def test_what_is_no_part_of_a_plate_is_named_with_its_option(text: str) -> None:
    with pytest.raises(InputError, match="no part of a plate") as told:
        extent(text, "--exclude")
    assert told.value.where == "--exclude"
