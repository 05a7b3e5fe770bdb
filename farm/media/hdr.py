"""HDR10 metadata of a plate as the text that encoders and muxers take."""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

HDR_TRANSFERS = frozenset({"smpte2084", "arib-std-b67"})

MASTERING_DISPLAY = "Mastering display metadata"
CONTENT_LIGHT = "Content light level metadata"
DYNAMIC = ("HDR Dynamic Metadata SMPTE2094-40 (HDR10+)", "HDR Dynamic Metadata CUVA 005.1 2021 (Vivid)")
DOLBY_VISION = ("DOVI configuration record", "Dolby Vision RPU Data", "Dolby Vision Metadata")

_MASTERING_STRUCT = struct.Struct("=20i2i")
_CONTENT_LIGHT_STRUCT = struct.Struct("=2I")


def _raw(value: Any) -> bytes | None:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        try:
            return base64.b64decode(value.removeprefix("base64:"), validate=True)
        except (binascii.Error, ValueError):
            return None
    return None


def _mastering(side_data: Mapping[str, Any]) -> list[Fraction] | None:
    """R, G, B, white point as x, y; then minimum and maximum luminance in cd/m²."""
    raw = _raw(side_data.get(MASTERING_DISPLAY))
    if raw is None or len(raw) < _MASTERING_STRUCT.size:
        return None
    *numbers, has_primaries, has_luminance = _MASTERING_STRUCT.unpack(raw[: _MASTERING_STRUCT.size])
    if not (has_primaries and has_luminance) or any(den == 0 for den in numbers[1::2]):
        return None
    return [Fraction(num, den) for num, den in zip(numbers[::2], numbers[1::2], strict=True)]


def mastering_display(side_data: Mapping[str, Any]) -> str | None:
    """`G(x,y)B(x,y)R(x,y)WP(x,y)L(max,min)` in units of 1/50000 and 1/10000 cd/m², or None.

    Read from FFmpeg's AVMasteringDisplayMetadata; the notation is that of x264, x265 and the ffmpeg program.
    """
    value = _mastering(side_data)
    if value is None:
        return None
    x = [round(v * 50000) for v in value[:8]]
    low, high = (round(v * 10000) for v in value[8:])
    return f"G({x[2]},{x[3]})B({x[4]},{x[5]})R({x[0]},{x[1]})WP({x[6]},{x[7]})L({high},{low})"


def mastering_display_decimal(side_data: Mapping[str, Any]) -> str | None:
    """The same with decimal fractions and cd/m², as SVT-AV1 takes it."""
    value = _mastering(side_data)
    if value is None:
        return None
    x = [f"{float(v):.5f}" for v in value[:8]]
    low, high = (f"{float(v):.4f}" for v in value[8:])
    return f"G({x[2]},{x[3]})B({x[4]},{x[5]})R({x[0]},{x[1]})WP({x[6]},{x[7]})L({high},{low})"


def content_light(side_data: Mapping[str, Any]) -> tuple[int, int] | None:
    """(MaxCLL, MaxFALL) in cd/m², from FFmpeg's AVContentLightMetadata, or None."""
    raw = _raw(side_data.get(CONTENT_LIGHT))
    if raw is None or len(raw) < _CONTENT_LIGHT_STRUCT.size:
        return None
    highest, average = _CONTENT_LIGHT_STRUCT.unpack(raw[: _CONTENT_LIGHT_STRUCT.size])
    return int(highest), int(average)
