"""Which container an encoder's chunks get."""

from __future__ import annotations

from fractions import Fraction

import pytest

from farm.media.chunkfile import chunk_container


@pytest.mark.parametrize(
    ("encoder", "ticks", "container"),
    [
        ("libx264", 90_000, "mp4"),
        ("libx265", 24_000, "mp4"),
        ("libsvtav1", 1000, "mp4"),
        ("h264_nvenc", 12_800, "mp4"),
        ("libx264", 1_000_000_000, "nut"),
        ("ffv1", 24, "nut"),
        ("libvpx-vp9", 24, "nut"),
        ("prores_ks", 1_000_000_000, "mov"),
    ],
)
def test_chunks_are_mp4_where_it_keeps_them_exactly(encoder: str, ticks: int, container: str) -> None:
    assert chunk_container(encoder, Fraction(1, ticks)) == container
