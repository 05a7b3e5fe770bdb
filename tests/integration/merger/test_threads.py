"""Chunks are encoded as one ffmpeg process encodes a film: several pictures at a time, none of them cut into slices."""

from __future__ import annotations

from tests.integration.merger.workshop import Workshop


def test_x264_works_on_several_pictures_instead_of_slices_of_one(workshop: Workshop) -> None:
    rendered = workshop.render(workshop.media.make("h264_audio.mp4"), "h264")
    stream = rendered.chunks[0].path.read_bytes()

    said = stream[(at := stream.index(b" threads=")) : stream.index(b" nr=", at)]
    assert b" threads=2 " in said
    assert b" sliced_threads=0" in said
    assert b" slices=" not in said
