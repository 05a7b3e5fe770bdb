"""Timecode labels for review copies: SMPTE where the plate has a timecode, else time since the first frame."""

from __future__ import annotations

import re
from fractions import Fraction

from farm.media.frame import Frame
from farm.media.timeline import Timeline

_TIMECODE = re.compile(r"(\d\d):(\d\d):(\d\d)([:;.])(\d\d)")


def timecode_at(start: str, frames: int, rate: Fraction) -> str | None:
    """The timecode `frames` after `start` ("10:00:00:00"; a semicolon is drop-frame); None where it is no timecode.

    Drop-frame counting leaves out 2 numbers a minute at 30 fps (4 at 60), but in no tenth minute (SMPTE ST 12-1).
    """
    match = _TIMECODE.fullmatch(start.strip())
    fps = round(rate)
    if match is None or fps < 1:
        return None
    hours, minutes, seconds, separator, frame = match.groups()
    drop = fps // 15 if separator in ";." and fps % 30 == 0 else 0
    total_minutes = int(hours) * 60 + int(minutes)
    number = (total_minutes * 60 + int(seconds)) * fps + int(frame) - drop * (total_minutes - total_minutes // 10)
    return _format(number + frames, fps, drop, separator)


def _format(number: int, fps: int, drop: int, separator: str) -> str:
    if drop:
        ten, rest = divmod(number, 600 * fps - 9 * drop)
        number += drop * (9 * ten + max(0, (rest - drop) // (60 * fps - drop)))
    seconds, frame = divmod(number, fps)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours % 24:02}:{minutes:02}:{seconds:02}{separator}{frame:02}"


def label_of(frame: Frame, timeline: Timeline, start: str | None, rate: Fraction) -> str:
    """What a review copy shows on a frame: timecode or elapsed time, and the frame's number in the timeline."""
    timecode = timecode_at(start, frame.index, rate) if start else None
    if timecode is None:
        elapsed = (frame.pts - int(timeline.pts[0])) * timeline.time_base
        milliseconds = round(elapsed * 1000)
        seconds, milliseconds = divmod(milliseconds, 1000)
        minutes, seconds = divmod(seconds, 60)
        timecode = f"{minutes // 60:02}:{minutes % 60:02}:{seconds:02}.{milliseconds:03}"
    return f"{timecode}  #{frame.index}"


def start_timecode(metadata: dict[str, str], *more: dict[str, str]) -> str | None:
    """The plate's timecode, from the container's metadata or a stream's."""
    return next((found for tags in (metadata, *more) if (found := tags.get("timecode"))), None)
