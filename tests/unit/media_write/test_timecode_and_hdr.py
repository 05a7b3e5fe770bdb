from __future__ import annotations

from fractions import Fraction

import pytest

from farm.media.hdr import content_light, mastering_display
from farm.media.samples import lost
from farm.media.timecode import timecode_at
from tests.unit.media_write.facts import LIGHT, MASTERING


@pytest.mark.parametrize(
    ("start", "frames", "rate", "found"),
    [
        ("10:00:00:00", 0, Fraction(24), "10:00:00:00"),
        ("10:00:00:00", 24 * 3600, Fraction(24000, 1001), "11:00:00:00"),
        ("23:59:59:24", 1, Fraction(25), "00:00:00:00"),
        # SMPTE ST 12-1: numbers 0 and 1 are left out at each minute but every tenth.
        ("00:00:59;29", 1, Fraction(30000, 1001), "00:01:00;02"),
        ("00:09:59;29", 1, Fraction(30000, 1001), "00:10:00;00"),
        ("00:00:00;00", 17982, Fraction(30000, 1001), "00:10:00;00"),
        ("00:00:00;00", 107892, Fraction(30000, 1001), "01:00:00;00"),
        ("00:00:59;59", 1, Fraction(60000, 1001), "00:01:00;04"),
        ("not a timecode", 1, Fraction(25), None),
    ],
)
def test_timecode(start: str, frames: int, rate: Fraction, found: str | None) -> None:
    assert timecode_at(start, frames, rate) == found


def test_hdr10_metadata_as_text() -> None:
    side_data = {"Mastering display metadata": MASTERING, "Content light level metadata": LIGHT}
    assert mastering_display(side_data) == "G(13250,34500)B(7500,3000)R(34000,16000)WP(15635,16450)L(10000000,1)"
    assert content_light(side_data) == (1000, 400)


@pytest.mark.parametrize("value", ["", "no base64!", "AAAA", None, "has_primaries:0"])
def test_hdr10_metadata_that_cannot_be_read_is_none(value: object) -> None:
    side_data = {"Mastering display metadata": value, "Content light level metadata": value}
    assert mastering_display(side_data) is None
    assert content_light(side_data) is None


@pytest.mark.parametrize(
    ("source", "target", "words"),
    [
        ("yuv420p", "yuv420p", 0),
        ("yuv420p", "yuv444p16le", 0),
        ("gray", "yuv422p10le", 0),
        ("gbrp", "bgr0", 0),
        ("yuv422p10le", "yuv420p", 2),
        ("gbrap", "yuv420p", 3),
        ("yuv444p", "gray", 1),
    ],
)
def test_what_is_lost(source: str, target: str, words: int) -> None:
    assert len(lost(source, target)) == words
