"""Pictures that lie on a card, given to the card's encoder where they lie: NVENC, by DLPack.

No card with an encoder was at hand, so this hand-over has never been encoded from. What needs no encoder is tested with
arrays of the processor, which DLPack describes in the same way.
"""

from __future__ import annotations

from typing import Any

from av.video.frame import VideoFrame

from farm.media.deliverables import Source
from farm.media.encoders import EncoderPlan, colour_numbers

CardPicture = tuple[Any, Any]
"""Luma (h, w) and chroma (h / 2, w; Cb, Cr in turn), NV12 or P010, with `__dlpack__`; nobody writes to them again."""

ENCODERS = frozenset({"h264_nvenc", "hevc_nvenc", "av1_nvenc"})
"""Encoders that take pictures on a card."""

_FORMS = {"yuv420p": "nv12", "yuv420p10le": "p010le"}


def through_memory(plan: EncoderPlan) -> str:
    """Why pictures go to the plan's encoder through memory; "" where they can be given to it on the card."""
    if plan.encoder not in ENCODERS:
        return "the encoder works in memory"
    if plan.source is not Source.PICTURE or plan.burn_in or plan.lossless:
        return "the deliverable is more than the picture"
    if plan.pad_right or plan.pad_bottom or not _same_samples(plan):
        return "the deliverable has other samples than the plate"
    return ""


def _same_samples(plan: EncoderPlan) -> bool:
    """Whether what is encoded is the plate's own samples, if in another order."""
    if (plan.width, plan.height) != (plan.source_width, plan.source_height) or plan.source_format not in _FORMS:
        return False
    if plan.sample_format not in (plan.source_format, _FORMS[plan.source_format]):
        return False
    if not plan.filters:
        return True
    names = [name for name, _ in plan.filters]
    if names != ["scale", "format"]:
        return False
    told = dict(part.split("=", 1) for part in plan.filters[0][1].split(":") if "=" in part)
    return all(told.get(f"in_{what}") == told.get(f"out_{what}") for what in ("color_matrix", "range"))


def handed_over(picture: CardPicture, plan: EncoderPlan) -> VideoFrame:
    """The picture for the encoder, without a copy: "cuda" where it lies on a card, else NV12 or P010.

    ValueError, TypeError or FFmpegError where its form is not one that FFmpeg takes.
    """
    frame = VideoFrame.from_dlpack(picture, format=_FORMS[plan.source_format])
    tags = colour_numbers(plan.colour)
    frame.color_primaries, frame.color_trc = tags["color_primaries"], tags["color_trc"]
    frame.colorspace, frame.color_range = tags["colorspace"], tags["color_range"]
    return frame
