"""What is known of a plate before decoding: its streams, colour, clock and warnings, as plain data (JSON)."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer


def _fraction(value: Any) -> Fraction:
    return value if isinstance(value, Fraction) else Fraction(str(value))


Rational = Annotated[Fraction, BeforeValidator(_fraction), PlainSerializer(str, return_type=str)]
"""A fraction that is "24000/1001" in JSON."""


class _Facts(BaseModel):
    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)


class ColourFacts(_Facts):
    """Names as FFmpeg writes them ("bt709", "smpte2084", "bt2020nc"); "unknown" where the plate is silent.

    `range` is "tv" (limited) or "pc" (full); `chroma_location` is "left", "center", "topleft", ...
    """

    primaries: str = "unknown"
    transfer: str = "unknown"
    matrix: str = "unknown"
    range: str = "unknown"
    chroma_location: str = "unknown"


class VideoFacts(_Facts):
    """The picture stream that the farm works on.

    `width` and `height` are the coded picture's, before rotation; `rotation` is degrees counter-clockwise that a player
    turns the picture (0, 90, 180, 270) and `display_matrix` the nine integers it came from, where there are any.
    `side_data` holds stream-level side data (mastering display, content light, Dolby Vision configuration, ...) by
    FFmpeg's name, base64 where it has no textual form.
    """

    stream_index: int
    codec: str
    profile: str | None = None
    codec_tag: str | None = None
    width: int
    height: int
    sample_format: str
    bit_depth: int
    time_base: Rational
    start_pts: int | None = None
    average_rate: Rational | None = None
    nominal_rate: Rational | None = None
    sample_aspect_ratio: Rational = Fraction(1)
    rotation: int = 0
    display_matrix: tuple[int, ...] | None = None
    field_order: str = "progressive"
    bit_rate: int | None = None
    colour: ColourFacts = ColourFacts()
    side_data: dict[str, Any] = {}


class StreamFacts(_Facts):
    """Any stream but the worked-on picture."""

    index: int
    kind: str
    codec: str
    time_base: Rational | None = None
    start_pts: int | None = None
    language: str | None = None
    disposition: tuple[str, ...] = ()
    metadata: dict[str, str] = {}
    detail: dict[str, Any] = {}


class PlateWarning(_Facts):
    """Something a person should know: `code` is stable ("vfr", "open_gop", "hdr", "damaged"), `text` is a sentence."""

    code: str
    text: str


class PlateFacts(_Facts):
    """All that `farm probe` says. `duration` is seconds, None where the container does not know."""

    container: str
    size: int
    duration: Rational | None = None
    video: VideoFacts
    streams: tuple[StreamFacts, ...] = ()
    chapters: int = 0
    metadata: dict[str, str] = {}
    frames: int | None = None
    warnings: tuple[PlateWarning, ...] = ()
