"""The facts of a plate whose frames an upscaler makes larger: what encoders and labels are planned by."""

from __future__ import annotations

from farm.errors import InputError
from farm.media.facts import PlateFacts

_LONGEST_SIDE = 16384
_WHOLE_PICTURES = ("progressive", "unknown")


def grown(facts: PlateFacts, scale: int) -> PlateFacts:
    """`facts` with a picture `scale` times as wide and high; the same object where the scale is 1.

    InputError where the plate cannot be enlarged: it is interlaced (a network would mix the two fields), or a side
    would have more than 16384 pixels.
    """
    if scale == 1:
        return facts
    video = facts.video
    if video.field_order not in _WHOLE_PICTURES:
        raise InputError(
            "The plate is interlaced, and an upscaler would mix its fields.",
            where="the plate's picture",
            do="Deinterlace it first, or use a recipe without an upscaler.",
        )
    width, height = video.width * scale, video.height * scale
    if max(width, height) > _LONGEST_SIDE:
        raise InputError(
            f"Enlarged {scale} times it would be {width}×{height}; the longest side may be {_LONGEST_SIDE}.",
            where="the plate's picture",
            do="Use a smaller scale, or a recipe without an upscaler.",
        )
    return facts.model_copy(update={"video": video.model_copy(update={"width": width, "height": height})})
