"""A few pictures out of a clip, for a look at what it shows; and telling clips from pictures by their first bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import av
import av.error
import cv2
from av import VideoFrame
from av.container import InputContainer
from av.video.stream import VideoStream

from farm.media.container import open_container

HEAD_BYTES = 512
"""So many bytes of a file tell its kind."""

_LARGEST = 1280
_TRIES = 120
_STILL_BRANDS = (b"heic", b"heix", b"hevc", b"heim", b"heis", b"mif1", b"msf1", b"avif", b"avis", b"jxl ")
_MP4_ATOMS = (b"ftyp", b"moov", b"mdat", b"free", b"wide", b"skip")
_CLIP_HEADS = (
    *(b"\x1a\x45\xdf\xa3", b"OggS", b"FLV", b"\x30\x26\xb2\x75", b"\x06\x0e\x2b\x34", b"\x00\x00\x01\xba"),
    *(b"YUV4MPEG2", b"DKIF", b"nut/multimedia container"),
)


def is_clip(head: bytes) -> bool:
    """Whether a file that begins so is a video container that the farm reads, and no still picture."""
    if head[4:8] in _MP4_ATOMS:
        return head[8:12] not in _STILL_BRANDS
    if head[:4] == b"RIFF":
        return head[8:11] == b"AVI"
    transport_stream = len(head) > 376 and head[0] == head[188] == head[376] == 0x47
    return transport_stream or head.startswith(_CLIP_HEADS)


def stills(path: Path, count: int) -> list[bytes]:
    """Up to `count` pictures spread over the clip, as JPEG of 1280 pixels at most. Raises NotFoundError, InputError."""
    found: list[bytes] = []
    with open_container(path, where="the clip") as container:
        stream = container.streams.video[0]
        length = container.duration or 0
        for number in range(count):
            if number and length:
                try:
                    container.seek(int(length * number / count))
                except av.error.FFmpegError:
                    continue
            frame = _next(container, stream, length / av.time_base * number / count)
            if frame is not None:
                found.append(_jpeg(frame))
            if not length:
                break
    return found


def _next(container: InputContainer, stream: VideoStream, seconds: float) -> VideoFrame | None:
    """The first frame at or after `seconds`, or how far towards it a few packets lead."""
    found: VideoFrame | None = None
    for tried, packet in enumerate(container.demux(stream)):
        try:
            frames = packet.decode()
        except av.error.FFmpegError:
            frames = []
        for frame in frames:
            found = frame
            if frame.time is None or frame.time >= seconds:
                return found
        if tried > _TRIES:
            break
    return found


def _jpeg(frame: VideoFrame) -> bytes:
    picture: Any = frame.to_ndarray(format="bgr24")
    factor = _LARGEST / max(picture.shape[:2])
    if factor < 1:
        picture = cv2.resize(picture, None, fx=factor, fy=factor, interpolation=cv2.INTER_AREA)
    return bytes(cv2.imencode(".jpg", picture)[1].tobytes())
