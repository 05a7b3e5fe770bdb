"""Every frame and every tick: whole plates and segments give what a plain decode gives, in any number of chunks."""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from farm.chunker.cut import PlateCutter
from farm.chunker.plan import ChunkRange, plan_chunks
from farm.errors import PlanMismatchError
from farm.media.facts import PlateFacts
from farm.media.frames import ReadReport
from farm.media.probe import probe
from farm.media.reader import read_plate, read_segment
from farm.media.scan import compare_timelines, decode_timeline, scan_timeline
from farm.media.segment import cut_segments
from farm.media.timeline import Timeline
from tests.integration.media.truth import Hashes, hashes, plain_decode, program_decode
from tests.media_factory import RECIPES, MediaFactory

NOT_FILMS = {
    *("text.mp4", "empty.mp4", "script.mp4", "sound_only.mp4", "truncated.mp4"),
    *("h264_resized.ts", "h264_stepped.ts", "broken.apng", "broken_late.apng"),
}
DAMAGED = {"corrupt_h264.mp4", "corrupt_h264.ts", "corrupt_hevc.mp4", "tail_lost.ts"}
NEW_CLOCK = {"h264_stepped_mute.ts"}
WHOLE = sorted(set(RECIPES) - NOT_FILMS - DAMAGED)
ODD = Path(os.environ.get("FARM_TEST_CLIPS", ""))
"""A folder of more clips to hold to the same promise, where there is one."""


def cut_and_read(path: Path, facts: PlateFacts, timeline: Timeline, folder: Path, size: int, context: int) -> Hashes:
    ranges = [
        ChunkRange(index=i, first=first, last=min(first + size, len(timeline)))
        for i, first in enumerate(range(0, len(timeline), size))
    ]
    segments = cut_segments(path, facts, timeline, ranges, folder, before=context, after=context)
    found: Hashes = []
    for segment in sorted(segments, key=lambda s: s.first):
        low, high = max(0, segment.first - context), min(len(timeline), segment.last + context)
        frames = list(read_segment(segment.path, facts, timeline, low, high))
        assert [f.index for f in frames] == list(range(low, high))
        found += hashes(f for f in frames if segment.first <= f.index < segment.last)
    return found


@pytest.mark.parametrize("name", WHOLE)
def test_frames_are_those_of_a_plain_decode_in_any_number_of_chunks(
    media: MediaFactory, tmp_path: Path, name: str
) -> None:
    path = media.make(name)
    facts = probe(path)
    timeline = scan_timeline(path, facts)
    assert compare_timelines(timeline, decode_timeline(path, facts)) is None
    plain = plain_decode(path)
    whole = hashes(read_plate(path, facts, timeline))
    if name in NEW_CLOCK:
        assert [crc for _, crc in whole] == [crc for _, crc in plain]
        assert all(a[0] < b[0] for a, b in pairwise(whole))
    else:
        assert whole == plain
    assert cut_and_read(path, facts, timeline, tmp_path / "few", max(1, len(timeline) // 2), 0) == whole
    assert cut_and_read(path, facts, timeline, tmp_path / "many", 7, 3) == whole


@pytest.mark.parametrize(
    "name",
    [
        "h264_open.mkv",
        "hevc_open.mp4",
        "h264_edited.mp4",
        "h264_422_10.mov",
        "vp9_hidden.webm",
        "h264_rot90.mp4",
        "raw.nut",
    ],
)
def test_the_ffmpeg_program_decodes_the_same_samples(media: MediaFactory, name: str) -> None:
    path = media.make(name)
    facts = probe(path)
    ours = b"".join(plane.tobytes() for frame in read_plate(path, facts) for plane in frame.planes)
    assert ours == program_decode(path, facts.video.sample_format)


@pytest.mark.parametrize("name", ["h264_open.mkv", "hevc_open.mp4", "h264_refresh.ts", "h264_rgb.mkv", "animated.apng"])
def test_coding_anew_is_exact_too(media: MediaFactory, tmp_path: Path, name: str) -> None:
    path = media.make(name)
    facts = probe(path)
    timeline = scan_timeline(path, facts)
    ranges = plan_chunks(timeline, target_seconds=0.5)
    segments = list(cut_segments(path, facts, timeline, ranges, tmp_path, before=2, lossless=True))
    assert {s.coding for s in segments} == {"lossless"}
    found = [h for s in segments for h in hashes(read_segment(s.path, facts, timeline, s.first, s.last))]
    assert found == hashes(read_plate(path, facts, timeline))


@pytest.mark.parametrize("name", sorted(DAMAGED))
def test_damaged_plates_keep_count_and_clock_and_say_what_is_concealed(
    media: MediaFactory, tmp_path: Path, name: str
) -> None:
    """By packets the fault is noticed or handled; by decoding the chunks agree with the whole."""
    path = media.make(name)
    facts = probe(path)
    by_packets = scan_timeline(path, facts)
    timeline = decode_timeline(path, facts)
    np.testing.assert_array_equal(timeline.pts, by_packets.pts)
    report = ReadReport()
    whole = list(read_plate(path, facts, timeline, report=report))
    assert [f.index for f in whole] == list(range(len(timeline)))
    assert report.concealed == timeline.concealed.tolist()
    for frame in (f for f in whole if f.concealed):
        np.testing.assert_array_equal(frame.planes[0], whole[frame.index - 1].planes[0])
    assert len(timeline.concealed) + len(timeline.damaged) > 0
    assert cut_and_read(path, facts, timeline, tmp_path / "a", 11, 2) == hashes(whole)
    with suppress(PlanMismatchError):
        found = cut_and_read(path, facts, by_packets, tmp_path / "b", 7, 0)
        assert [pts for pts, _ in found] == timeline.pts.tolist()


@pytest.mark.parametrize("name", ["corrupt_h264.mp4", "corrupt_hevc.mp4"])
def test_a_lost_frame_that_the_packets_promised_asks_for_a_plan_by_decoding(
    media: MediaFactory, tmp_path: Path, name: str
) -> None:
    path = media.make(name)
    facts = probe(path)
    with pytest.raises(PlanMismatchError, match="decoding the whole plate"):
        cut_and_read(path, facts, scan_timeline(path, facts), tmp_path, 7, 0)


def test_a_long_way_to_the_next_start_is_coded_anew_by_itself(media: MediaFactory, tmp_path: Path) -> None:
    arguments = ["-f", "lavfi", "-i", "testsrc2=size=64x48:rate=100:duration=9"]
    endless = "intra-refresh=1:keyint=infinite"
    path = media.make_custom(
        ".mkv", *arguments, "-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-x264-params", endless
    )
    facts = probe(path)
    timeline = scan_timeline(path, facts)
    ranges = plan_chunks(timeline, target_seconds=1.5)
    segments = list(cut_segments(path, facts, timeline, ranges, tmp_path))
    assert [s.coding for s in segments] == sorted(s.coding for s in segments)
    assert {s.coding for s in segments} == {"copy", "lossless"}
    found = [h for s in segments for h in hashes(read_segment(s.path, facts, timeline, s.first, s.last))]
    assert found == plain_decode(path)


@pytest.mark.parametrize(
    "name", ["h264_open.mkv", "h264_mbaff.ts", "mpeg4_bframes.avi", "h264_stepped_mute.ts", "h264_edited.mp4"]
)
def test_planning_and_cutting_in_one_go_gives_the_same(media: MediaFactory, tmp_path: Path, name: str) -> None:
    path = media.make(name)
    facts = probe(path)
    cutter = PlateCutter(path, facts, tmp_path, target_seconds=0.5, before=3, after=2)
    chunks = list(cutter.run())
    timeline = cutter.timeline()
    assert cutter.complete
    assert compare_timelines(timeline, decode_timeline(path, facts)) is None
    assert [c.range for c in chunks] == plan_chunks(timeline, target_seconds=0.5)
    found = [
        h for c in chunks for h in hashes(read_segment(c.segment.path, facts, timeline, c.range.first, c.range.last))
    ]
    assert found == hashes(read_plate(path, facts, timeline))


def test_the_first_chunk_is_there_before_the_scan_ends(media: MediaFactory, tmp_path: Path) -> None:
    path = media.make("h264_long_scan.mkv")
    facts = probe(path)
    cutter = PlateCutter(path, facts, tmp_path, target_seconds=2.0)
    first = next(cutter.run())
    assert first.range.index == 0
    assert not cutter.complete
    part = cutter.timeline()
    frames = hashes(read_segment(first.segment.path, facts, part, first.range.first, first.range.last))
    assert frames == plain_decode(path)[: len(frames)]


@pytest.mark.skipif(not os.environ.get("FARM_TEST_CLIPS"), reason="FARM_TEST_CLIPS names no folder of further clips")
@pytest.mark.parametrize("path", sorted(ODD.glob("*.*")) if ODD.name else [], ids=lambda p: p.name)
def test_further_clips(path: Path, tmp_path: Path) -> None:
    facts = probe(path)
    timeline = decode_timeline(path, facts)
    whole = hashes(read_plate(path, facts, timeline))
    if len(timeline.concealed) == 0:
        assert whole == plain_decode(path)
        assert compare_timelines(scan_timeline(path, facts), timeline) is None
    assert cut_and_read(path, facts, timeline, tmp_path, 13, 2) == whole
