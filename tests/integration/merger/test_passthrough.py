"""What goes in comes out: the same frames, clock and tracks, whatever the number of chunks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import pytest

from farm.media.probe import probe
from farm.merger import join
from farm.merger import merge as merge_module
from tests.integration.merger.workshop import Workshop, payloads, picture_hashes, picture_times, sound_starts

CLIPS = [
    "h264_closed.mp4",
    "h264_open.mkv",
    "h264_pyramid.mp4",
    "h264_23976.mp4",
    "h264_2997.mkv",
    "h264_1fps.mp4",
    "h264_240.mp4",
    "h264_vfr.mp4",
    "h264_edited.mp4",
    "h264_late.mp4",
    "h264_audio.mp4",
    "h264.ts",
    "h264_mbaff.ts",
    "h264_one.mp4",
    "h264_full.mp4",
    "h264_422_10.mov",
    "h264_cover.mp4",
    "hevc_open.mp4",
    "hevc_10_pq.mp4",
    "hevc_12_444.mkv",
    "vp9_hidden.webm",
    "mpeg2.mpg",
    "mpeg4_bframes.avi",
    "prores4444.mov",
    "ffv1_tiny.mkv",
    "raw_rgb.avi",
    "animated.gif",
    "animated.apng",
]


@pytest.mark.parametrize("parts", [1, 12])
@pytest.mark.parametrize("clip", CLIPS)
def test_lossless_deliverable_is_the_plate(workshop: Workshop, clip: str, parts: int) -> None:
    plate = workshop.media.make(clip)
    rendered = workshop.render(plate, "ffv1", parts)

    report = rendered.merge()

    assert report.verified.ok, report.verified.words()
    assert report.verified.lossless_chunks == len(rendered.chunks)
    before, after = picture_hashes(plate), picture_hashes(rendered.out)
    assert after == before
    # Matroska counts milliseconds; FFmpeg rounds halves away from zero.
    times = [int((t + report.shift) * 1000 + Fraction(1, 2)) for t in picture_times(plate)]
    assert [t * 1000 for t in picture_times(rendered.out)] == times
    assert payloads(rendered.out, "audio") == payloads(plate, "audio") or clip == "h264.ts"
    kept = [track for track in report.verified.tracks if track.kind != "data"]
    assert all(track.same for track in kept)


@pytest.mark.parametrize(
    "clip", ["h264_23976.mp4", "h264_vfr.mp4", "h264_late.mp4", "h264.ts", "h264_edited.mp4", "h264_240.mp4"]
)
def test_h264_in_chunks_has_one_header_and_the_plates_ticks(workshop: Workshop, clip: str) -> None:
    plate = workshop.media.make(clip)
    rendered = workshop.render(plate, "h264", 7)

    report = rendered.merge()

    assert len({chunk.facts.extradata_sha256 for chunk in rendered.chunks}) == 1
    assert picture_times(rendered.out) == [t + report.shift for t in picture_times(plate)]
    assert report.verified.worst_pts_error == 0
    assert probe(rendered.out).video.time_base == Fraction(1, rendered.timeline.time_base.denominator)
    for new, old in zip(sound_starts(rendered.out), sound_starts(plate), strict=True):
        assert abs(new - old - report.shift) < Fraction(1, 10_000)


def test_720_chunks_do_not_drift(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A two-hour film's count of chunks, with few file handles: the last frame is where it was, to the tick."""
    plate = workshop.media.make_custom(
        ".mp4",
        *["-f", "lavfi", "-i", "testsrc2=size=64x36:rate=24000/1001", "-frames:v", "2160"],
        *["-c:v", "libx264", "-preset", "ultrafast", "-bf", "2"],
    )
    rendered = workshop.render(plate, "h264", 720)
    opened = _count_open_files(monkeypatch)

    rendered.merge()

    assert len(rendered.chunks) == 720
    assert max(opened) <= 2
    times = picture_times(rendered.out)
    assert times == picture_times(plate)
    assert times[-1] - times[0] == Fraction(2159 * 1001, 24000)


def _count_open_files(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many chunk files are open whenever one is opened."""
    real, now, seen = join.open_chunk, [0], [0]

    @contextmanager
    def counting(chunk: join.ChunkFile, **how: Any) -> Iterator[tuple[Any, Any]]:
        now[0] += 1
        seen.append(now[0])
        try:
            with real(chunk, **how) as opened:
                yield opened
        finally:
            now[0] -= 1

    monkeypatch.setattr(join, "open_chunk", counting)
    return seen


@pytest.mark.parametrize("room", [1 << 20, 64])
def test_a_film_with_room_for_its_index_has_it_in_front_and_one_with_too_little_too(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    rendered = workshop.render(workshop.media.make("h264_audio.mp4"), "h264", 3)
    asked: list[int] = []
    arguments = merge_module.mux_arguments

    def noting(*given: Any, index_bytes: int, **more: Any) -> list[str]:
        asked.append(index_bytes)
        return arguments(*given, index_bytes=index_bytes, **more)

    monkeypatch.setattr(merge_module, "index_room", lambda film, size: room)
    monkeypatch.setattr(merge_module, "mux_arguments", noting)
    assert rendered.merge().verified.ok
    assert asked == ([room] if room > 1000 else [room, 0])
    film = rendered.out.read_bytes()
    assert 0 < film.index(b"moov") < film.index(b"mdat")
