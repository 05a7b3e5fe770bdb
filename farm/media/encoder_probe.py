"""Whether this machine has an encoder that works: one frame through it, once for the life of the process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any

import av
import av.error

from farm.media.deliverables import EncoderChoice
from farm.media.scheduling import as_it_was

Probe = Callable[[EncoderChoice, str, int, int], str | None]
"""Says why an encoder does not work here for a sample format and size; None where one frame came out."""

_RATE = Fraction(25)


def probe_encoder(choice: EncoderChoice, sample_format: str, width: int, height: int) -> str | None:
    """Encode one frame; the reason it failed, or None. The answer is kept for the life of the process."""
    return why_not(choice.encoder, choice.options | choice.formats[sample_format], sample_format, (width, height))


def why_not(encoder: str, options: Mapping[str, str], sample_format: str, size: tuple[int, int]) -> str | None:
    """The same for an FFmpeg encoder with its options; `size` is width and height."""
    return _tried(encoder, tuple(sorted(options.items())), sample_format, size)


@lru_cache(maxsize=256)
def _tried(encoder: str, options: tuple[tuple[str, str], ...], sample_format: str, size: tuple[int, int]) -> str | None:
    try:
        context: Any = av.CodecContext.create(encoder, "w")
        context.width, context.height = size
        context.pix_fmt = sample_format
        context.framerate, context.time_base = _RATE, 1 / _RATE
        context.options = dict(options)
        frame = av.VideoFrame(*size, sample_format)
        frame.pts = 0
        with as_it_was():
            packets = [*context.encode(frame), *context.encode(None)]
    except (av.error.FFmpegError, ValueError) as error:
        return str(error).rsplit("last error log: ", 1)[-1]
    return None if packets and packets[0].is_keyframe else "no key frame came out"
