from fractions import Fraction

from farm.media.facts import PlateFacts, VideoFacts
from farm.media.warnings import HeadPacket, warnings_for


def facts() -> PlateFacts:
    video = VideoFacts(
        stream_index=0,
        codec="h264",
        width=1280,
        height=720,
        sample_format="yuv420p",
        bit_depth=8,
        time_base=Fraction(1, 24),
    )
    return PlateFacts(container="mov", size=1, video=video)


def head(*pts: int) -> list[HeadPacket]:
    """Packets in decoding order, two frames ahead of what is shown."""
    return [HeadPacket(p, order - 2, 1, order == 0, False, False) for order, p in enumerate(pts)]


def codes(packets: list[HeadPacket]) -> set[str]:
    return {warning.code for warning in warnings_for(facts(), packets)}


def test_frames_that_were_not_read_yet_are_no_variable_rate() -> None:
    assert "vfr" not in codes(head(0, 4, 2, 1, 3, 8, 6, 5, 7, 12))


def test_a_variable_rate_is_still_seen() -> None:
    assert "vfr" in codes(head(0, 1, 2, 5, 6, 9, 10, 11, 12, 13, 14, 15))
