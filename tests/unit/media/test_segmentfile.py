"""Segment files: what is written is read, and what is damaged is noticed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from farm.errors import InfrastructureError
from farm.media.decoder import CodedPacket, DecoderSetup, Stamp
from farm.media.facts import ColourFacts
from farm.media.frame import Frame
from farm.media.framefile import decode_frame, encode_frame
from farm.media.planecodec import PlaneDecoder, PlaneEncoder
from farm.media.planes import planar_format
from farm.media.segmentfile import SegmentFileReader, SegmentFileWriter, SegmentHeader, encode_record

SETUP = DecoderSetup(codec="h264", width=64, height=48, sample_format="yuv420p", extradata="AAEC")
HEADER = SegmentHeader(coding="copy", first=1, last=3, low=0, high=3, frames=[(0, 0), (2, 40), (1, 80)], setup=SETUP)
PACKETS = [
    CodedPacket(7, Stamp(-5, None, 40), b"first", True, False, False, None),
    CodedPacket(8, Stamp(None, 1 << 40, 0), b"", False, True, True, None, (("new_extradata", b"\x00\x01"),)),
]


def write(path: Path) -> Path:
    with SegmentFileWriter(path, HEADER) as file:
        for packet in PACKETS:
            file.write(encode_record(packet))
    return path


def test_records_come_back_as_they_were(tmp_path: Path) -> None:
    with SegmentFileReader(write(tmp_path / "a.segment")) as reader:
        assert reader.header == HEADER
        assert list(reader) == PACKETS


def test_every_cut_and_every_flipped_bit_is_noticed(tmp_path: Path) -> None:
    whole = write(tmp_path / "a.segment").read_bytes()
    broken = tmp_path / "b.segment"
    for size in range(len(whole)):
        broken.write_bytes(whole[:size])
        with pytest.raises(InfrastructureError, match="damaged"), SegmentFileReader(broken) as reader:
            list(reader)
    for at in range(len(whole)):
        broken.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        with pytest.raises(InfrastructureError), SegmentFileReader(broken) as reader:
            list(reader)


def test_an_unfinished_file_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "a.segment"
    with pytest.raises(RuntimeError, match="stop"), SegmentFileWriter(path, HEADER):
        raise RuntimeError("stop")
    assert not path.exists()


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("yuv420p", [(49, 65), (25, 33), (25, 33)]),
        ("yuv422p10le", [(48, 64), (48, 32), (48, 32)]),
        ("gbrap16le", [(20, 31)] * 4),
        ("gray", [(1, 1)]),
        ("yuv444p", [(3, 17)] * 3),
    ],
)
def test_frames_are_coded_without_loss(name: str, shapes: list[tuple[int, int]]) -> None:
    fmt = planar_format(name)
    rng = np.random.default_rng(3)
    dtype = np.uint8 if fmt.depth == 8 else np.uint16
    encoder, decoder = PlaneEncoder(), PlaneDecoder()
    for index in range(3):
        planes = tuple(rng.integers(0, 1 << fmt.depth, shape).astype(dtype) for shape in shapes)
        frame = Frame(planes, fmt, ColourFacts(matrix="bt709"), 1000 + index, index, index == 1, {"interlaced": True})
        back = decode_frame(encode_frame(frame, encoder), decoder)
        assert (back.pts, back.index, back.concealed, back.format) == (frame.pts, index, index == 1, fmt)
        assert (back.colour, back.side_data) == (frame.colour, frame.side_data)
        for now, then in zip(back.planes, planes, strict=True):
            np.testing.assert_array_equal(now, then)
