"""Segments made of pieces of the plate are those that reading its packets a second time gives, byte for byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from farm.chunker.cut import PlateCutter
from farm.errors import PlanMismatchError
from farm.media import packetlog
from farm.media.packetlog import PacketLog, keeps_packets_whole
from farm.media.probe import probe
from farm.media.scan import scan_frames
from farm.media.segment import cut_segments
from farm.media.segmentfile import SegmentFileReader
from tests.media_factory import MediaFactory

KINDS = (
    *("h264_closed.mp4", "h264_audio.mp4", "h264_pyramid.mp4", "hevc_open.mp4", "h264_edited.mp4", "h264_vfr.mp4"),
    *("h264_fragmented.mp4", "sound_first.mp4", "h264_long_gop.mp4", "prores.mov", "h264_refresh.mp4"),
)


def cutter(path: Path, folder: Path) -> PlateCutter:
    return PlateCutter(path, probe(path), folder, target_seconds=0.6, before=5, after=3)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("span", [1 << 20, 3000])
def test_pieces_of_the_plate_make_the_same_segments(
    media: MediaFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, span: int
) -> None:
    monkeypatch.setattr(packetlog, "_SPAN_BYTES", span)
    path = media.make(name)
    logged = cutter(path, tmp_path / "logged")
    chunks = list(logged.run())

    ranges = [chunk.range for chunk in chunks]
    facts, timeline = probe(path), logged.timeline()
    read = list(cut_segments(path, facts, timeline, ranges, tmp_path / "read", before=5, after=3))

    assert len(chunks) == len(read)
    for chunk, again in zip(chunks, read, strict=True):
        assert chunk.segment.path.read_bytes() == again.path.read_bytes()
        assert (chunk.segment.packets, chunk.segment.run_up) == (again.packets, again.run_up)
        assert chunk.segment.size == again.path.stat().st_size
        with SegmentFileReader(chunk.segment.path) as segment:
            assert sum(1 for _ in segment) == again.packets


def test_only_containers_that_say_where_packets_lie_are_cut_so(media: MediaFactory) -> None:
    assert keeps_packets_whole(probe(media.make("h264_closed.mp4")))
    assert not keeps_packets_whole(probe(media.make("h264_open.mkv")))


def test_a_plate_that_changes_while_it_is_cut_is_noticed(media: MediaFactory, tmp_path: Path) -> None:
    path = tmp_path / "plate.mp4"
    path.write_bytes(media.make("h264_closed.mp4").read_bytes())
    chunks = cutter(path, tmp_path / "cut").run()
    next(chunks)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 3] + bytes(len(whole) - len(whole) // 3))

    with pytest.raises(PlanMismatchError, match="not where"):
        list(chunks)


def test_packets_that_are_not_where_they_should_be_are_read_again(
    media: MediaFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = media.make("h264_closed.mp4")
    wanted = [chunk.segment.path.read_bytes() for chunk in cutter(path, tmp_path / "logged").run()]

    def elsewhere(*_: Any) -> bool:
        return False

    monkeypatch.setattr(PacketLog, "_is_there", elsewhere)
    log = PacketLog(path)
    list(scan_frames(path, probe(path), log))
    found = [chunk.segment.path.read_bytes() for chunk in cutter(path, tmp_path / "read").run()]

    assert not log.exact
    assert found == wanted


def test_the_rest_of_a_log_is_read_where_a_scan_stops(media: MediaFactory) -> None:
    path = media.make("h264_audio.mp4")
    facts, whole, part = probe(path), PacketLog(path), PacketLog(path)
    frames = len(list(scan_frames(path, facts, whole)))
    scan = scan_frames(path, facts, part)
    for _ in range(3):
        next(scan)

    assert len(part) < frames
    part.read_rest(facts)

    assert (len(part), part.starts, part.exact) == (len(whole), whole.starts, True)
    assert len(whole) == frames
