"""Deliverables that need one encode of the whole film: chunks become a lossless mezzanine, and the merge encodes."""

from __future__ import annotations

from typing import Any

from farm.errors import RecipeError
from farm.media.deliverables import Deliverable, deliverable
from farm.media.encoders import EncoderPlan, chunk_encoder
from farm.media.facts import PlateFacts

# Coded surfaces of graphics cards have no planar name.
_PLANAR = {"p010le": "yuv420p10le"}


def job_encoder(name: str, facts: PlateFacts, *, max_bytes: int | None = None, **choice: Any) -> EncoderPlan:
    """The plan by which a job's chunks are encoded for the deliverable called `name`.

    `max_bytes` is how large a deliverable of a wanted size may be; `choice` goes to `chunk_encoder`. RecipeError where
    it is missing or no encoder can make it, NotFoundError for a name that there is not.
    """
    preset = deliverable(name)
    check_size(preset, max_bytes)
    plan = chunk_encoder(preset, facts, **choice)
    return plan if max_bytes is None or not preset.sized else _mezzanine(plan, facts, max_bytes)


def check_size(preset: Deliverable, max_bytes: int | None) -> None:
    """RecipeError for a deliverable of a wanted size when none is wanted."""
    if preset.sized and max_bytes is None:
        raise RecipeError(
            "It is made to a size, and none was given.",
            where=f"deliverable {preset.name}",
            do="Say how large it may be: --max-size 25MB, or max_bytes of the job.",
        )


def _mezzanine(plan: EncoderPlan, facts: PlateFacts, max_bytes: int) -> EncoderPlan:
    """The plan of the chunks: pictures as `plan` would code them, without loss; `final` is what is left to do."""
    sample_format = _PLANAR.get(plan.sample_format, plan.sample_format)
    lossless = chunk_encoder(deliverable("ffv1"), facts, hardware=False)
    final = plan.model_copy(
        update={
            "source_format": sample_format,
            "source_width": plan.width,
            "source_height": plan.height,
            "pad_right": 0,
            "pad_bottom": 0,
            # Conversion is done in the chunks; marking fields as such is not kept by the mezzanine.
            "filters": tuple(item for item in plan.filters if item[0] == "setfield"),
        }
    )
    return plan.model_copy(
        update={
            "encoder": lossless.encoder,
            "hardware": False,
            "lossless": True,
            "options": lossless.options,
            "sample_format": sample_format,
            "tag": None,
            "chunk_container": lossless.chunk_container,
            "chunk_suffix": lossless.chunk_suffix,
            "final": final,
            "max_bytes": max_bytes,
        }
    )
