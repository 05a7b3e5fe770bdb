"""What a person should know about a plate before a job is made of it, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

from farm.media import limits, webp
from farm.media.colour_guess import guess_matrix
from farm.media.facts import PlateFacts, PlateWarning


class HeadPacket(NamedTuple):
    """One of the first packets: time stamps and duration in ticks, and the demuxer's flags."""

    pts: int | None
    dts: int | None
    duration: int
    key: bool
    discard: bool
    corrupt: bool


Rule = Callable[[PlateFacts, list[HeadPacket]], Iterator[PlateWarning]]


def warnings_for(facts: PlateFacts, head: list[HeadPacket]) -> tuple[PlateWarning, ...]:
    """All warnings, the gravest first; `head` holds the first packets in file order."""
    return tuple(warning for rule in _RULES for warning in rule(facts, head))


def _damage(facts: PlateFacts, head: list[HeadPacket]) -> Iterator[PlateWarning]:
    if any(p.corrupt for p in head):
        yield PlateWarning(
            code="damaged",
            text="The container marks packets as damaged; frames that do not decode repeat the one before.",
        )


def _rate(facts: PlateFacts, head: list[HeadPacket]) -> Iterator[PlateWarning]:
    # Frames shown after the last packet's decoding time may still have neighbours that were not read.
    known = max((p.dts for p in head if p.dts is not None), default=None)
    pts = sorted(p.pts for p in head if p.pts is not None and not p.discard and (known is None or p.pts <= known))
    steps = [b - a for a, b in pairwise(pts)]
    if steps and is_variable(steps) and not (_has_fields(facts) and max(steps) <= 2 * min(steps) + 1):
        low, high = (float(s * facts.video.time_base * 1000) for s in (min(steps), max(steps)))
        yield PlateWarning(
            code="vfr",
            text=f"The frame rate varies (frames last {low:.1f} to {high:.1f} ms); every frame keeps its own time.",
        )
    average, nominal = facts.video.average_rate, facts.video.nominal_rate
    if average and nominal and not Fraction(9, 10) < nominal / average < Fraction(11, 10):
        yield PlateWarning(
            code="rate_label",
            text=f"The stated rate is {float(nominal):.3f} frames a second, the real one {float(average):.3f}.",
        )


def _has_fields(facts: PlateFacts) -> bool:
    """Whether a packet may hold one field, half a frame: such packets follow one another twice as fast as frames do."""
    return facts.video.codec in ("h264", "hevc") and facts.video.field_order not in ("progressive", "unknown")


def is_variable(steps: list[int]) -> bool:
    """Whether frame distances differ by more than the rounding of the clock (one tick either way)."""
    usual = sorted(steps)[len(steps) // 2]
    return any(abs(s - usual) > max(1, usual // 50) for s in steps)


def _structure(facts: PlateFacts, head: list[HeadPacket]) -> Iterator[PlateWarning]:
    if facts.container == webp.CONTAINER:
        yield PlateWarning(
            code="webp",
            text="The animated WebP is decoded by Pillow, as FFmpeg cannot; its pictures are taken in RGB.",
        )
    if _has_leading_pictures(head):
        yield PlateWarning(
            code="open_gop", text="GOPs are open: pictures before a key frame in time need the GOP before."
        )
    keys = sum(p.key for p in head)
    if keys <= 1 and len(head) >= 300 and facts.video.codec not in limits.INTRA_ONLY:
        yield PlateWarning(
            code="few_key_frames",
            text=f"Only {keys} key frame in the first {len(head)} frames; chunks need a longer run-up.",
        )
    if any(p.discard for p in head):
        yield PlateWarning(
            code="edit_list", text="An edit list hides frames; the frames that a player shows are used, no others."
        )
    if any(p.pts is None for p in head):
        yield PlateWarning(
            code="no_time_stamps",
            text="Some packets have no time stamp; the frames are counted by decoding all of them.",
        )


def _has_leading_pictures(head: list[HeadPacket]) -> bool:
    key_pts: int | None = None
    for packet in head[1:]:
        if packet.key:
            key_pts = packet.pts
        elif key_pts is not None and packet.pts is not None and packet.pts < key_pts:
            return True
    return False


def _geometry(facts: PlateFacts, head: list[HeadPacket]) -> Iterator[PlateWarning]:
    video = facts.video
    if video.rotation:
        yield PlateWarning(
            code="rotated", text=f"Players turn the picture by {video.rotation}° counter-clockwise; so does the farm."
        )
    if video.display_matrix and is_mirrored(video.display_matrix):
        yield PlateWarning(code="mirrored", text="Players show the picture mirrored.")
    if video.sample_aspect_ratio not in (0, 1):
        yield PlateWarning(
            code="non_square", text=f"Pixels are not square ({video.sample_aspect_ratio}); they stay so."
        )
    if video.field_order not in ("progressive", "unknown"):
        yield PlateWarning(code="interlaced", text=f"The picture is interlaced ({video.field_order}); fields are kept.")


def is_mirrored(matrix: tuple[int, ...]) -> bool:
    """Whether a display matrix turns the picture over (its 2×2 part has a negative determinant)."""
    return matrix[0] * matrix[4] - matrix[1] * matrix[3] < 0


def _colour(facts: PlateFacts, head: list[HeadPacket]) -> Iterator[PlateWarning]:
    colour, video = facts.video.colour, facts.video
    if colour.transfer in ("smpte2084", "arib-std-b67"):
        name = "PQ" if colour.transfer == "smpte2084" else "HLG"
        yield PlateWarning(
            code="hdr", text=f"The picture is HDR ({name}); deliverables without HDR would change its look."
        )
    if any("dolby vision" in k.lower() or "dovi" in k.lower() for k in video.side_data):
        yield PlateWarning(code="dolby_vision", text="The picture carries Dolby Vision metadata.")
    if any("2094-40" in k or "hdr10+" in k.lower() for k in video.side_data):
        yield PlateWarning(code="hdr10_plus", text="The picture carries HDR10+ metadata.")
    if colour.matrix == "unknown" and not video.sample_format.startswith(("gbr", "gray", "ya")):
        guess = guess_matrix(video.height)
        yield PlateWarning(
            code="matrix_unknown",
            text=f"The colour matrix is not stated; {guess} is assumed for {video.height} lines, as players do.",
        )
    if colour.range == "pc" and not video.sample_format.startswith(("gbr", "gray", "ya")):
        yield PlateWarning(code="full_range", text="Samples use the full range; they stay so.")


def _sound(facts: PlateFacts, head: list[HeadPacket]) -> Iterator[PlateWarning]:
    if not any(s.kind == "audio" for s in facts.streams):
        yield PlateWarning(code="no_audio", text="There is no sound.")
    if facts.duration is None:
        yield PlateWarning(
            code="no_duration", text="The container does not say how long it is; its packets are counted."
        )


_RULES: tuple[Rule, ...] = (_damage, _structure, _rate, _geometry, _colour, _sound)
