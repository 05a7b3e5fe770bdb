"""Previews are upright as the ffmpeg program's own rotation makes them."""

from __future__ import annotations

import numpy as np
import pytest

from farm.media.colour import upright_preview
from farm.media.probe import probe
from farm.media.reader import read_plate
from tests.media_factory import MediaFactory, ffmpeg


@pytest.mark.parametrize(
    "name", ["h264_closed.mp4", "h264_rot90.mp4", "h264_rot180.mp4", "h264_rot270.mp4", "h264_mirror.mp4"]
)
def test_previews_are_turned_as_a_player_turns_the_picture(media: MediaFactory, name: str) -> None:
    path = media.make(name)
    facts = probe(path)
    ours, _ = upright_preview(next(iter(read_plate(path, facts))), facts, 320)
    arguments = ["-i", str(path), "-frames:v", "1", "-vf", "scale=in_color_matrix=bt601", "-pix_fmt", "bgr24"]
    theirs = np.frombuffer(ffmpeg(*arguments, "-f", "rawvideo", "-").stdout, np.uint8).reshape(ours.shape)
    assert np.abs(ours.astype(int) - theirs.astype(int)).mean() < 3
