"""Damaged plates on the farm's own way, from plan to frames: the same pictures each time, in any number of chunks."""

from __future__ import annotations

from pathlib import Path

import pytest

from farm.chunker.cut import PlateCutter
from farm.errors import PlanMismatchError
from farm.media.probe import probe
from farm.media.reader import read_segment
from tests.integration.media.truth import Hashes, hashes, plain_decode
from tests.media_factory import MediaFactory

ONE_CHUNK, SEVERAL = 100_000.0, 0.5


def cut_and_read(plate: Path, folder: Path, chunk_seconds: float) -> tuple[Hashes, set[int]]:
    """(frames, which of them repeat the one before), planned by packets, and by decoding where that goes wrong."""
    facts = probe(plate)
    for by_decoding in (False, True):
        cutter = PlateCutter(plate, facts, folder, target_seconds=chunk_seconds, by_decoding=by_decoding)
        try:
            frames = [
                (frame.index, frame.concealed, hashes([frame])[0])
                for chunk in cutter.run()
                for frame in read_segment(
                    chunk.segment.path, facts, cutter.timeline(), chunk.range.first, chunk.range.last
                )
            ]
        except PlanMismatchError:
            continue
        frames.sort()
        return [found for _, _, found in frames], {index for index, concealed, _ in frames if concealed}
    raise AssertionError("the plan by decoding does not fit the decoded frames")


@pytest.mark.parametrize("chunk_seconds", [ONE_CHUNK, SEVERAL])
@pytest.mark.parametrize("name", ["corrupt_hevc.mp4", "corrupt_h264.mp4", "corrupt_h264.ts"])
def test_all_that_decodes_is_what_one_thread_decodes(
    media: MediaFactory, tmp_path: Path, name: str, chunk_seconds: float
) -> None:
    plate = media.make(name)
    frames, concealed = cut_and_read(plate, tmp_path, chunk_seconds)
    shown = [crc for index, (_, crc) in enumerate(frames) if index not in concealed]
    assert shown == [crc for _, crc in plain_decode(plate, threads=1)]


@pytest.mark.parametrize("name", ["hevc_open.mp4", "vp8.webm"])
def test_faults_that_the_decoder_does_not_notice_look_the_same_each_time(
    media: MediaFactory, tmp_path: Path, name: str
) -> None:
    """The decoder says nothing and leaves old samples in the picture: with several threads other ones each time."""
    data = bytearray(media.make(name).read_bytes())
    for spot in (3, 4, 5):
        at = len(data) * spot // 8
        data[at : at + 16] = bytes((spot * 53 + i * 29) % 256 for i in range(16))
    plate = tmp_path / name
    plate.write_bytes(data)
    frames, concealed = cut_and_read(plate, tmp_path, ONE_CHUNK)
    assert not concealed
    assert [crc for _, crc in frames] == [crc for _, crc in plain_decode(plate, threads=1)]
