"""Plans of deliverables that the merge encodes as a whole."""

from __future__ import annotations

import pytest

from farm.errors import RecipeError
from farm.media.deliverables import deliverable
from farm.media.encoders import EncoderPlan, chunk_encoder
from farm.media.whole import job_encoder
from tests.unit.media_write.facts import plate


def test_chunks_are_lossless_in_the_samples_of_the_final_encode() -> None:
    plan = job_encoder("h264-fit", plate(width=321, height=241, sample_format="yuv422p10le"), max_bytes=10**6)
    final = plan.finals[-1]
    assert (plan.encoder, plan.lossless, plan.chunk_container) == ("ffv1", True, "nut")
    assert (final.encoder, final.lossless, final.container) == ("libx264", False, "mp4")
    assert plan.sample_format == final.source_format == final.sample_format == "yuv420p"
    assert (plan.width, plan.height, plan.pad_right, plan.pad_bottom) == (322, 242, 1, 1)
    assert (final.source_width, final.source_height, final.pad_right, final.pad_bottom) == (322, 242, 0, 0)
    assert [name for name, _ in plan.filters] == ["scale", "format"]
    assert final.filters == ()
    assert "crf" not in final.options


def test_fields_stay_fields() -> None:
    final = job_encoder("h264-fit", plate(field_order="tt"), max_bytes=10**6).finals[-1]
    assert final.filters == (("setfield", "tff"),)
    assert final.options["flags"] == "+ilme+ildct"


def test_a_card_is_planned_before_the_processor_and_proved_where_the_merge_runs() -> None:
    plan = job_encoder("h264-fit", plate(), max_bytes=10**6)
    card, processor = plan.finals
    assert (plan.encoder, plan.hardware) == ("ffv1", False)
    assert (card.encoder, card.hardware, card.options["rc"]) == ("h264_nvenc", True, "vbr")
    assert (processor.encoder, processor.hardware) == ("libx264", False)
    assert card.source_format == processor.source_format == plan.sample_format
    assert len(job_encoder("h264-fit", plate(), max_bytes=10**6, hardware=False).finals) == 1


def test_plans_travel_as_json() -> None:
    plan = job_encoder("h264-fit", plate(), max_bytes=10**6, hardware=False)
    again = EncoderPlan.model_validate(plan.to_json())
    assert again == plan
    assert again.digest() == plan.digest() != plan.model_copy(update={"max_bytes": 2}).digest()


def test_other_plans_are_as_an_older_farm_knows_them() -> None:
    assert not {"finals", "max_bytes"} & set(chunk_encoder(deliverable("h264"), plate(), hardware=False).to_json())
    assert job_encoder("h264", plate(), max_bytes=5, hardware=False).finals == ()


def test_a_size_is_needed() -> None:
    with pytest.raises(RecipeError, match="--max-size"):
        job_encoder("h264-fit", plate())
