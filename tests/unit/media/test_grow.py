"""Facts of a plate that an upscaler enlarges."""

import pytest

from farm.errors import InputError
from farm.media.deliverables import deliverable
from farm.media.encoders import chunk_encoder
from farm.media.facts import PlateFacts
from farm.media.grow import grown
from tests.unit.faces.people import facts


def interlaced() -> PlateFacts:
    plate = facts()
    return plate.model_copy(update={"video": plate.video.model_copy(update={"field_order": "tt"})})


def test_the_encoder_plan_says_the_new_size() -> None:
    plan = chunk_encoder(deliverable("ffv1"), grown(facts(320, 241), 2), hardware=False)
    assert (plan.source_width, plan.source_height, plan.width, plan.height) == (640, 482, 640, 482)
    assert grown(facts(), 1) == facts()


def test_what_cannot_be_enlarged_is_refused_with_the_reason() -> None:
    with pytest.raises(InputError, match="interlaced"):
        grown(interlaced(), 2)
    with pytest.raises(InputError, match="17280×9720"):
        grown(facts(4320, 2430), 4)
    assert grown(interlaced(), 1) == interlaced()
