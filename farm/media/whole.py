"""Deliverables that need one encode of the whole film: chunks become a lossless mezzanine, and the merge encodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from farm.errors import RecipeError
from farm.media.deliverables import Deliverable, deliverable
from farm.media.encoders import EncoderPlan, chunk_encoder
from farm.media.facts import PlateFacts
from farm.media.loudness import loudness_norm


def job_encoder(
    name: str,
    facts: PlateFacts,
    *,
    max_bytes: int | None = None,
    loudness: str | None = None,
    hardware: bool = True,
    **choice: Any,
) -> EncoderPlan:
    """The plan by which a job's chunks are encoded for the deliverable called `name`.

    `max_bytes` is how large a deliverable of a wanted size may be, `loudness` the name of a norm for its sound;
    `hardware` and `choice` go to `chunk_encoder`.
    RecipeError where it is missing or no encoder can make it, NotFoundError for a name that there is not.
    """
    preset = deliverable(name)
    plan = _picture_encoder(preset, facts, max_bytes, hardware, choice)
    if loudness is None or not preset.carries_tracks:
        return plan
    norm = {"loudness": loudness_norm(loudness)}
    return plan.model_copy(update={**norm, "finals": tuple(final.model_copy(update=norm) for final in plan.finals)})


def _picture_encoder(
    preset: Deliverable, facts: PlateFacts, max_bytes: int | None, hardware: bool, choice: dict[str, Any]
) -> EncoderPlan:
    check_size(preset, max_bytes)
    if max_bytes is None or not preset.sized:
        return chunk_encoder(preset, facts, hardware=hardware, **choice)
    plan = chunk_encoder(preset, facts, hardware=False, **choice)
    # Who merges is not known yet, so what a card would do is planned unproved, and proved there.
    card = chunk_encoder(preset, facts, **choice | {"probe": lambda *_: None}) if hardware else plan
    return _mezzanine(plan, (card, plan) if card.hardware else (plan,), facts, max_bytes)


def check_size(preset: Deliverable, max_bytes: int | None) -> None:
    """RecipeError for a deliverable of a wanted size when none is wanted."""
    if preset.sized and max_bytes is None:
        raise RecipeError(
            "It is made to a size, and none was given.",
            where=f"deliverable {preset.name}",
            do="Say how large it may be: --max-size 25MB, or max_bytes of the job.",
        )


def _mezzanine(plan: EncoderPlan, finals: Sequence[EncoderPlan], facts: PlateFacts, max_bytes: int) -> EncoderPlan:
    """The plan of the chunks: pictures as `plan` would code them, without loss; `finals` is what is left to do."""
    lossless = chunk_encoder(deliverable("ffv1"), facts, hardware=False)
    return plan.model_copy(
        update={
            "encoder": lossless.encoder,
            "lossless": True,
            "options": lossless.options,
            "tag": None,
            "chunk_container": lossless.chunk_container,
            "chunk_suffix": lossless.chunk_suffix,
            "finals": tuple(_final(final, plan.sample_format) for final in finals),
            "max_bytes": max_bytes,
        }
    )


def _final(plan: EncoderPlan, source_format: str) -> EncoderPlan:
    """`plan` from pictures that are converted and padded already."""
    return plan.model_copy(
        update={
            "source_format": source_format,
            "source_width": plan.width,
            "source_height": plan.height,
            "pad_right": 0,
            "pad_bottom": 0,
            # Marking fields as such is not kept by the mezzanine.
            "filters": tuple(item for item in plan.filters if item[0] == "setfield"),
        }
    )
