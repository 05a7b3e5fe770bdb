"""The truth that the reader is held against: a plain decode by PyAV, and one by the ffmpeg program."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import av
import av.error
import numpy as np

from farm.media.container import picture_stream
from farm.media.frame import Frame
from farm.media.planes import to_planes
from tests.media_factory import ffmpeg

Hashes = list[tuple[int | None, int]]


def checksum(planes: Iterable[np.ndarray[Any, Any]]) -> int:
    total = 0
    for plane in planes:
        total = zlib.crc32(np.ascontiguousarray(plane), zlib.crc32(repr(plane.shape).encode(), total))
    return total


def hashes(frames: Iterable[Frame]) -> Hashes:
    return [(frame.pts, checksum(frame.planes)) for frame in frames]


def plain_decode(path: Path, *, threads: int = 0) -> Hashes:
    """(pts, checksum of all planes) of every frame, as any program gets them from PyAV. `threads` 0 is one a core."""
    if path.suffix == ".webp":
        return list(_plain_webp(path))
    found: Hashes = []
    with av.open(str(path)) as container:
        stream = picture_stream(container)
        stream.thread_type, stream.thread_count = "AUTO", threads
        for packet in container.demux(stream):
            try:
                frames = packet.decode()
            except av.error.FFmpegError:
                continue
            found += [(frame.pts, checksum(to_planes(frame)[0])) for frame in frames]
    return found


def _plain_webp(path: Path) -> Iterator[tuple[int, int]]:
    """By Pillow, as FFmpeg decodes no animated WebP; planes in FFmpeg's order (green, blue, red, alpha)."""
    from PIL import Image, ImageSequence

    start = 0
    with Image.open(path) as image:
        for picture in ImageSequence.Iterator(image):
            samples = np.asarray(picture)
            yield start, checksum(samples[:, :, plane] for plane in (1, 2, 0, 3)[: samples.shape[2]])
            start += picture.info["duration"]


def program_decode(path: Path, sample_format: str) -> bytes:
    """All samples of all frames, planar, by the ffmpeg program; nothing is scaled, dropped or repeated."""
    arguments = [
        "-noautorotate",
        "-i",
        str(path),
        "-map",
        "0:V:0",
        "-fps_mode",
        "passthrough",
        "-pix_fmt",
        sample_format,
    ]
    return ffmpeg(*arguments, "-f", "rawvideo", "-").stdout
