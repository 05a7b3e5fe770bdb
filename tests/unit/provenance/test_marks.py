import json

import pytest

from farm.errors import InputError
from farm.provenance.marks import aigc_mark


def test_the_mark_has_the_standards_keys_in_order() -> None:
    mark = aigc_mark("facefarm", "job1")
    assert list(json.loads(mark)) == [
        "Label",
        "ContentProducer",
        "ProduceID",
        "ReservedCode1",
        "ContentPropagator",
        "PropagateID",
        "ReservedCode2",
    ]
    assert mark.startswith('{"Label":"1","ContentProducer":"facefarm","ProduceID":"job1"')
    assert " " not in mark


@pytest.mark.parametrize("bad", ["a b", 'a"b', "a\\b", "合成"])
def test_values_that_the_mark_cannot_hold_are_refused(bad: str) -> None:
    with pytest.raises(InputError):
        aigc_mark(bad, "job1")
