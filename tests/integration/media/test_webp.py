"""Animated WebP, decoded by Pillow: its clock, its limits, and where it breaks. Frames: test_exact_frames.py."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from farm.errors import InputError
from farm.media import limits
from farm.media.probe import probe
from farm.media.sandbox import probe_safely
from farm.media.scan import scan_timeline
from tests.media_factory import MediaFactory


def test_every_picture_keeps_its_length_and_its_alpha(media: MediaFactory) -> None:
    path = media.make("alpha.webp")
    facts = probe_safely(path)
    assert (facts.container, facts.duration, facts.video.sample_format) == ("webp_pipe", Fraction(1901, 1000), "gbrap")
    assert "webp" in {warning.code for warning in facts.warnings}
    timeline = scan_timeline(path, facts)
    milliseconds = [int(ticks * timeline.time_base * 1000) for ticks in timeline.duration]
    assert milliseconds == [40, 40, 80, 41, 40, 120, 40, 1500]


def test_a_single_picture_is_no_film(tmp_path: Path) -> None:
    from PIL import Image

    path = tmp_path / "still.webp"
    Image.new("RGB", (64, 64), (200, 10, 10)).save(path)
    with pytest.raises(InputError, match="single picture"):
        probe(path)


def test_a_file_that_was_cut_off_is_refused_with_its_bytes(media: MediaFactory, tmp_path: Path) -> None:
    path = tmp_path / "cut.webp"
    path.write_bytes(media.make("animated.webp").read_bytes()[:9000])
    with pytest.raises(InputError, match=r"the plate at byte 9000: .* was cut off: it claims 22174 bytes"):
        probe(path)


def test_a_picture_that_breaks_in_the_middle_is_named_by_byte_and_time(media: MediaFactory, tmp_path: Path) -> None:
    data = bytearray(media.make("animated.webp").read_bytes())
    at = -1
    for _ in range(6):
        at = data.index(b"ANMF", at + 1)
    data[at + 24 + 8 : at + 24 + 48] = bytes(40)
    path = tmp_path / "broken.webp"
    path.write_bytes(data)
    with pytest.raises(InputError, match=rf"at byte {at}, at 0\.500 s: The WebP animation cannot be decoded"):
        probe(path)


def test_a_canvas_that_would_take_all_memory_is_not_made(media: MediaFactory, tmp_path: Path) -> None:
    data = bytearray(media.make("animated.webp").read_bytes())
    data[24:30] = (16000).to_bytes(3, "little") * 2
    path = tmp_path / "large.webp"
    path.write_bytes(data)
    assert limits.MAX_PIXELS < 16001 * 16001
    with pytest.raises(InputError, match="16001×16001"):
        probe(path)
