"""Planes of any sample format to bytes and back, without loss: each plane is a grey picture coded by FFV1.

Grey has neither range nor matrix, so nothing can be converted by mistake, and every format that the reader gives
(RGB, alpha, odd sizes) works the same way.
"""

from __future__ import annotations

import struct
from fractions import Fraction
from typing import Any

import numpy as np
from av import CodecContext, VideoFrame
from numpy.typing import NDArray

from farm.errors import InfrastructureError
from farm.media.decoder import own_packet
from farm.media.frame import Plane

_HEAD = struct.Struct("<BBHHII")
_RAW, _FFV1 = 0, 1
_SMALLEST_SIDE = 16
"""Smaller planes are stored as they are: FFV1 does not take every tiny size, and there is nothing to win."""


class PlaneEncoder:
    """Encodes planes; keeps one FFV1 encoder for each size and depth."""

    def __init__(self) -> None:
        self._contexts: dict[tuple[int, int, int], Any] = {}
        self._count = 0

    def encode(self, planes: tuple[Plane, ...]) -> bytes:
        """All planes, one after the other."""
        return b"".join(self._encode_plane(plane) for plane in planes)

    def _encode_plane(self, plane: Plane) -> bytes:
        height, width = plane.shape
        if min(height, width) < _SMALLEST_SIDE:
            return _HEAD.pack(_RAW, plane.itemsize, width, height, 0, plane.nbytes) + plane.tobytes()
        context = self._context(width, height, plane.itemsize)
        frame = VideoFrame(width, height, _grey(plane.itemsize))
        _rows(frame, plane.itemsize)[:] = plane
        frame.pts, frame.time_base = self._count, context.time_base
        self._count += 1
        data = b"".join(bytes(packet) for packet in context.encode(frame))
        extradata = context.extradata or b""
        return _HEAD.pack(_FFV1, plane.itemsize, width, height, len(extradata), len(data)) + extradata + data

    def _context(self, width: int, height: int, itemsize: int) -> Any:
        key = (width, height, itemsize)
        if key not in self._contexts:
            context: Any = CodecContext.create("ffv1", "w")
            context.width, context.height, context.pix_fmt = width, height, _grey(itemsize)
            context.time_base = Fraction(1, 1000)
            context.gop_size, context.thread_count = 1, 1
            context.options = {"level": "3", "slices": "4", "slicecrc": "0"}
            context.open()
            self._contexts[key] = context
        return self._contexts[key]


class PlaneDecoder:
    """The reverse of PlaneEncoder."""

    def __init__(self) -> None:
        self._contexts: dict[tuple[int, int, int, bytes], Any] = {}

    def decode(self, data: bytes) -> tuple[Plane, ...]:
        """Raises InfrastructureError where `data` is not what the encoder wrote."""
        planes: list[Plane] = []
        at = 0
        while at < len(data):
            if at + _HEAD.size > len(data):
                raise _broken()
            coding, itemsize, width, height, extra, size = _HEAD.unpack_from(data, at)
            at += _HEAD.size
            extradata, body = data[at : at + extra], data[at + extra : at + extra + size]
            at += extra + size
            if coding == _RAW:
                samples: NDArray[Any] = np.frombuffer(body, _dtype(itemsize))
                planes.append(samples.reshape(height, width).copy())
            else:
                planes.append(self._decode_plane(width, height, itemsize, extradata, body))
        return tuple(planes)

    def _decode_plane(self, width: int, height: int, itemsize: int, extradata: bytes, body: bytes) -> Plane:
        key = (width, height, itemsize, extradata)
        if key not in self._contexts:
            context: Any = CodecContext.create("ffv1", "r")
            context.width, context.height, context.pix_fmt = width, height, _grey(itemsize)
            context.extradata, context.thread_count = extradata, 1
            self._contexts[key] = context
        frames = self._contexts[key].decode(own_packet(body))
        if len(frames) != 1:
            raise _broken()
        return _rows(frames[0], itemsize).copy()


def _grey(itemsize: int) -> str:
    return "gray" if itemsize == 1 else "gray16le"


def _dtype(itemsize: int) -> type[np.uint8 | np.uint16]:
    return np.uint8 if itemsize == 1 else np.uint16


def _rows(frame: VideoFrame, itemsize: int) -> NDArray[Any]:
    """The samples of a grey frame, in place."""
    plane = frame.planes[0]
    samples: NDArray[Any] = np.frombuffer(memoryview(plane), _dtype(itemsize))
    return samples.reshape(frame.height, plane.line_size // itemsize)[:, : frame.width]


def _broken() -> InfrastructureError:
    return InfrastructureError(
        "A frame of the segment cannot be decoded.", where="the segment", do="It will be cut again."
    )
