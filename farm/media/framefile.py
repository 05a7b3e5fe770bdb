"""A frame as one record of a lossless segment, and back."""

from __future__ import annotations

import struct
from typing import Any

from pydantic import BaseModel, ConfigDict

from farm.media.decoder import CodedPacket, Stamp
from farm.media.facts import ColourFacts
from farm.media.frame import Frame
from farm.media.planecodec import PlaneDecoder, PlaneEncoder
from farm.media.planes import planar_format


class _Head(BaseModel):
    model_config = ConfigDict(frozen=True)

    sample_format: str
    colour: ColourFacts
    concealed: bool
    side_data: dict[str, Any] | None


def encode_frame(frame: Frame, planes: PlaneEncoder) -> CodedPacket:
    """The record: its ordinal is the frame's index, its pts the frame's."""
    head = _Head(
        sample_format=frame.format.name, colour=frame.colour, concealed=frame.concealed, side_data=frame.side_data
    )
    text = head.model_dump_json().encode()
    data = struct.pack("<I", len(text)) + text + planes.encode(frame.planes)
    return CodedPacket(frame.index, Stamp(frame.pts, None, 0), data, True, False, frame.concealed, None)


def decode_frame(record: CodedPacket, planes: PlaneDecoder) -> Frame:
    """The frame that `encode_frame` was given."""
    size = int.from_bytes(record.data[:4], "little")
    head = _Head.model_validate_json(record.data[4 : 4 + size])
    return Frame(
        planes.decode(record.data[4 + size :]),
        planar_format(head.sample_format),
        head.colour,
        record.stamp.pts or 0,
        record.ordinal,
        head.concealed,
        head.side_data,
    )
