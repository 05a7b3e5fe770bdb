"""The container of chunk files.

MP4 and QuickTime keep packets in one piece, so that the merge need not read them one by one; NUT keeps any codec and
time base exactly, but has no mapping for ProRes and DNxHR.
"""

from __future__ import annotations

from fractions import Fraction

_QUICKTIME = frozenset({"prores_ks", "dnxhd"})
_MP4 = ("264", "265", "hevc", "av1")
_FINEST_MP4 = 10_000_000
"""Ticks a second: MP4 has 32 bits for the time between decoding and showing a picture."""


def chunk_container(encoder: str, time_base: Fraction) -> str:
    """FFmpeg's name of the container for chunks by an encoder, on a plate's time base."""
    if encoder in _QUICKTIME:
        return "mov"
    fits = any(codec in encoder for codec in _MP4) and time_base.denominator <= _FINEST_MP4
    return "mp4" if fits else "nut"
