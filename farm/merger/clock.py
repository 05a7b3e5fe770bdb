"""Where the deliverable's clock starts, and in which ticks its container counts."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import lcm

from farm.media.facts import PlateFacts
from farm.media.timeline import Timeline

# Broadcast streams start at whatever the station's clock said; a file starts at zero.
_RUNNING_CLOCKS = frozenset({"mpegts", "mpeg", "mpegvideo", "h264", "hevc", "m4v"})
_LARGEST_TIMESCALE = 2**31 - 1


def shift_of(facts: PlateFacts, timeline: Timeline) -> Fraction:
    """Seconds that are added to every time stamp: 0, but a running clock is set so that its first track starts at 0."""
    if not _RUNNING_CLOCKS & set(facts.container.split(",")):
        return Fraction(0)
    starts = [int(timeline.pts[0]) * timeline.time_base]
    for stream in facts.streams:
        if stream.kind in ("audio", "subtitle") and stream.start_pts is not None and stream.time_base is not None:
            starts.append(stream.start_pts * stream.time_base)
    ticks = min(starts) / timeline.time_base
    return -(ticks.numerator // ticks.denominator) * timeline.time_base


def shifted(timeline: Timeline, shift: Fraction) -> Timeline:
    """The timeline with `shift` (a whole number of ticks) added."""
    ticks = shift / timeline.time_base
    if ticks == 0:
        return timeline
    return replace(timeline, pts=timeline.pts + int(ticks))


def movie_timescale(facts: PlateFacts, timeline: Timeline) -> int:
    """The ticks a second of MP4's edit lists: fine enough for every track to start exactly where it does."""
    scale = timeline.time_base.denominator
    for stream in facts.streams:
        if stream.kind == "audio" and stream.time_base is not None:
            finer = lcm(scale, stream.time_base.denominator)
            scale = finer if finer <= _LARGEST_TIMESCALE else scale
    return scale


def rescaled(ticks: int, source: Fraction, target: Fraction) -> int:
    """`ticks` of `source` in ticks of `target`, to the nearest, halves away from zero, as FFmpeg rounds."""
    exact = ticks * source / target
    sign = -1 if exact < 0 else 1
    return sign * int((abs(exact) * 2 + 1) // 2)
