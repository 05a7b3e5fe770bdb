from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from farm.errors import FarmError
from farm.media.deliverables import deliverable
from farm.media.encoders import EncoderPlan, chunk_encoder
from farm.media.facts import PlateFacts, StreamFacts
from farm.media.timeline import Timeline
from farm.media.writer import ChunkFacts
from farm.merger.carry import Way, carriage, losses
from farm.merger.check import in_order
from farm.merger.clock import movie_timescale, rescaled, shift_of, shifted
from farm.merger.film import Film
from farm.merger.join import ChunkFile, Clock
from farm.merger.mux import index_room, mux_arguments, orientation_arguments
from farm.merger.report import Findings
from tests.unit.media_write.facts import plate, stream

AAC = stream(1, "audio", "aac", time_base=Fraction(1, 48000), language="eng", disposition=("default",))


def timeline(*pts: int, base: Fraction = Fraction(1, 24000)) -> Timeline:
    ticks = np.array(pts, np.int64)
    duration = np.append(np.diff(ticks), 1001).astype(np.int64)
    return Timeline(base, ticks, duration, np.ones(len(ticks), np.bool_))


def plan_for(facts: PlateFacts, name: str = "h264") -> EncoderPlan:
    return chunk_encoder(deliverable(name), facts, hardware=False)


def arguments(facts: PlateFacts, name: str = "h264") -> list[str]:
    plan = plan_for(facts, name)
    film = Film.of(Path("/p/-i.mp4"), facts, timeline(0, 1001, 2002), plan, {"AIGC": "x"})
    return mux_arguments(film, Path("/o/x.mp4"), first_dts=-2002)


@pytest.mark.parametrize(
    ("pts", "reorder", "dts"),
    [
        ((0, 1001, 2002, 3003), 0, [0, 1001, 2002, 3003]),
        ((5005, 6006, 7007, 8008), 2, [3003, 4004, 5005, 6006]),
        ((-1001, 0, 500, 9000), 1, [-1501, -1001, 0, 500]),
    ],
)
def test_dts_rises_and_is_never_after_its_pts(pts: tuple[int, ...], reorder: int, dts: list[int]) -> None:
    clock = Clock(timeline(*pts), reorder)
    found = [clock.dts(number) for number in range(len(pts))]
    assert found == dts
    assert sorted(set(found)) == found


@pytest.mark.parametrize(
    ("ticks", "source", "target", "found"),
    [
        (1001, Fraction(1, 24000), Fraction(1, 1000), 42),
        (1, Fraction(1, 2000), Fraction(1, 1000), 1),
        (-1, Fraction(1, 2000), Fraction(1, 1000), -1),
        (2**40, Fraction(1, 90000), Fraction(1, 90000), 2**40),
    ],
)
def test_rescaling_rounds_halves_away_from_zero(ticks: int, source: Fraction, target: Fraction, found: int) -> None:
    assert rescaled(ticks, source, target) == found


def test_a_running_clock_starts_at_zero_with_its_first_track() -> None:
    sound = stream(1, "audio", "ac3", time_base=Fraction(1, 90000), start_pts=126000)
    clock = timeline(129600, 133200, base=Fraction(1, 90000))
    shift = shift_of(plate(sound, container="mpegts"), clock)
    assert shift == -Fraction(126000, 90000)
    assert [int(p) for p in shifted(clock, shift).pts] == [3600, 7200]
    assert shift_of(plate(sound, container="matroska,webm"), clock) == 0


def test_edit_lists_count_in_ticks_that_every_track_can_be_told_in() -> None:
    assert movie_timescale(plate(AAC), timeline(0)) == 48000
    other = stream(1, "audio", "aac", time_base=Fraction(1, 44100))
    assert movie_timescale(plate(other), timeline(0, base=Fraction(1, 90000))) == 4410000


def test_the_mux_opens_files_and_the_pipe_only_and_says_which_demuxer() -> None:
    found = arguments(plate(AAC))
    inputs = [found[i + 1] for i, word in enumerate(found) if word == "-i"]
    assert inputs == ["pipe:0", "file:/p/-i.mp4"]
    assert found[-1] == "file:/o/x.mp4"
    assert [found[i + 1] for i, word in enumerate(found) if word == "-protocol_whitelist"] == ["pipe", "file"]
    assert [found[i + 1] for i, word in enumerate(found) if word == "-f"] == ["mp4", "mov", "mp4"]
    assert "-shortest" not in found


def test_the_mux_keeps_the_plates_order_clock_and_label() -> None:
    first = stream(0, "audio", "aac", disposition=("default", "forced"))
    facts = plate(first, stream_index=1)
    found = arguments(facts)
    assert [found[i + 1] for i, word in enumerate(found) if word == "-map"] == ["1:0", "0:v:0"]
    assert found[found.index("-disposition:0") + 1] == "default+forced"
    assert found[found.index("-bsf:1") + 1] == "setts=pts=PTS+-2002:dts=DTS+-2002"
    assert "AIGC=x" in found
    assert "use_metadata_tags" in found[found.index("-movflags") + 1]
    assert found[found.index("-avoid_negative_ts") + 1] == "disabled"


def test_a_matte_carries_nothing_of_the_plate() -> None:
    facts = plate(AAC)
    found = arguments(facts, "matte")
    assert [found[i + 1] for i, word in enumerate(found) if word == "-map"] == ["0:v:0"]
    assert found[found.index("-map_metadata") + 1] == "-1"
    assert losses(facts, deliverable("matte")) == []


@pytest.mark.parametrize(
    ("matrix", "options"),
    [
        (None, []),
        ((65536, 0, 0, 0, 65536, 0, 0, 0, 1 << 30), []),
        ((0, -65536, 0, 65536, 0, 0, 0, 0, 1 << 30), ["-display_rotation", "90"]),
        ((-65536, 0, 0, 0, 65536, 0, 0, 0, 1 << 30), ["-display_rotation", "0", "-display_hflip"]),
    ],
)
def test_orientation(matrix: tuple[int, ...] | None, options: list[str]) -> None:
    assert orientation_arguments(plate(display_matrix=matrix).video) == options


@pytest.mark.parametrize(
    ("item", "name", "way", "codec"),
    [
        (AAC, "h264", Way.COPY, "copy"),
        (stream(1, "audio", "truehd"), "h264", Way.CONVERT, "flac"),
        (stream(1, "audio", "truehd"), "ffv1", Way.COPY, "copy"),
        (stream(1, "audio", "opus"), "prores", Way.CONVERT, "pcm_s24le"),
        (stream(1, "audio", "pcm_f32be"), "ffv1", Way.CONVERT, "pcm_f32le"),
        (stream(1, "audio", "unknown"), "h264", Way.LEAVE_OUT, "copy"),
        (stream(1, "subtitle", "subrip"), "h264", Way.CONVERT, "mov_text"),
        (stream(1, "subtitle", "mov_text"), "ffv1", Way.CONVERT, "subrip"),
        (stream(1, "subtitle", "hdmv_pgs_subtitle"), "h264", Way.LEAVE_OUT, "copy"),
        (stream(1, "subtitle", "hdmv_pgs_subtitle"), "ffv1", Way.COPY, "copy"),
        (stream(1, "attachment", "ttf"), "h264", Way.LEAVE_OUT, "copy"),
        (stream(1, "attachment", "ttf"), "ffv1", Way.COPY, "copy"),
        (stream(1, "data", "klv"), "h264", Way.LEAVE_OUT, "copy"),
        (stream(1, "video", "png", disposition=("attached_pic",)), "ffv1", Way.COPY, "copy"),
    ],
)
def test_what_is_carried_and_that_a_loss_is_named_before(item: StreamFacts, name: str, way: Way, codec: str) -> None:
    facts = plate(item, time_base=Fraction(1, 1000))
    (found,) = carriage(facts, plan_for(facts, name))
    assert (found.way, found.codec) == (way, codec)
    assert bool(losses(facts, deliverable(name))) == (way is not Way.COPY)


def test_a_timecode_track_is_no_loss_because_it_is_written_anew() -> None:
    track = stream(1, "data", "none", metadata={"timecode": "10:00:00:00"})
    facts = plate(track)
    assert losses(facts, deliverable("h264")) == []
    assert "timecode=10:00:00:00" in arguments(facts)


def test_matroskas_milliseconds_and_8_bit_hdr_are_named() -> None:
    facts = plate()
    assert any("millisecond" in words for words in losses(facts, deliverable("ffv1")))
    hdr = facts.video.colour.model_copy(update={"transfer": "smpte2084"})
    bright = plate(colour=hdr, sample_format="yuv420p10le", bit_depth=10)
    assert any("8 bits" in words for words in losses(bright, deliverable("h264")))
    assert losses(bright, deliverable("hevc10")) == []


def _chunk(first: int, last: int) -> ChunkFile:
    facts = ChunkFacts(
        first=first,
        last=last,
        frames=last - first,
        first_pts=first,
        last_pts=last - 1,
        time_base=Fraction(1, 24),
        plan_digest="",
        encoder="ffv1",
        sample_format="gray",
        width=1,
        height=1,
        reorder=0,
        extradata_sha256="",
        size=0,
        sha256="",
    )
    return ChunkFile(Path("none"), facts)


@pytest.mark.parametrize(
    ("ranges", "words"),
    [
        ([(0, 2), (3, 4)], "frames 2 to 2 is missing"),
        ([(1, 4)], "frames 0 to 0 is missing"),
        ([(0, 3)], "frames 3 to 3 is missing"),
        ([(0, 2), (1, 4)], "Frames 1 to 1 are in two chunks"),
        ([(0, 5)], "has 4 frames"),
    ],
)
def test_gaps_and_overlaps(ranges: list[tuple[int, int]], words: str) -> None:
    with pytest.raises(FarmError, match=words):
        in_order([_chunk(*r) for r in ranges], timeline(0, 1, 2, 3))


def test_chunks_are_put_in_order() -> None:
    found = in_order([_chunk(2, 4), _chunk(0, 2)], timeline(0, 1, 2, 3))
    assert [chunk.facts.first for chunk in found] == [0, 2]


def test_findings_are_bounded_but_counted() -> None:
    findings = Findings()
    for frame in range(1000):
        findings.add("pts", "wrong", frame)
    assert (findings.count, len(findings.items)) == (1000, 20)


def test_a_large_mp4_keeps_room_for_its_index_and_a_small_one_is_written_twice() -> None:
    facts = plate(AAC)
    film = Film.of(Path("/p.mp4"), facts, timeline(*range(0, 1001 * 1440, 1001)), plan_for(facts))
    room = index_room(film, 10**9)
    assert 1440 * 44 < room <= 10**7
    assert index_room(film, 99 * room) == 0
    found = mux_arguments(film, Path("/o.mp4"), first_dts=0, index_bytes=room)
    assert found[found.index("-moov_size") + 1] == str(room)
    assert "faststart" not in found[found.index("-movflags") + 1]
    small = arguments(facts)
    assert "faststart" in small[small.index("-movflags") + 1]
    assert "-moov_size" not in small


@pytest.mark.parametrize("name", ["prores", "ffv1"])
def test_only_mp4_has_an_index_to_make_room_for(name: str) -> None:
    facts = plate(AAC)
    assert index_room(Film.of(Path("/p.mp4"), facts, timeline(0, 1001), plan_for(facts, name)), 10**12) == 0
