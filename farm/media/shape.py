"""Whether a stream's pictures keep their size and kind of samples: what the headers in its key packets say of them.

Headers that change are no proof that the picture does: the stream must be decoded then. Where they lie: sequence
parameter sets of ITU-T H.264 and H.265, sequence headers of MPEG-1, MPEG-2 and AV1, key frame headers of VP8 (RFC 6386,
9.1) and VP9, the frame headers of ProRes (SMPTE RDD 36) and JPEG.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from farm.media.randomaccess import length_size, nal_units

_HEAD_BYTES = 4096
_H264_SPS, _HEVC_SPS = 7, 33
_AV1_SEQUENCE = 1


class ShapeWatch:
    """Compares each key packet's headers with those before. One for a pass over a stream."""

    def __init__(self, codec: str, extradata: bytes | None) -> None:
        self._read = _reader(codec, extradata)
        self._known: bytes | None = None

    def differs(self, packet: Any) -> bool:
        """Whether this packet announces another picture than the one before that said anything."""
        if packet.has_sidedata("new_extradata"):
            return True
        if self._read is None:
            return False
        found = self._read(bytes(memoryview(packet)[:_HEAD_BYTES]))
        if not found or found == self._known:
            return False
        before, self._known = self._known, found
        return before is not None


def _reader(codec: str, extradata: bytes | None) -> Callable[[bytes], bytes] | None:
    if codec in ("h264", "hevc"):
        size = length_size(codec, extradata)
        kind = _h264_sps if codec == "h264" else _hevc_sps
        return lambda head: b"".join(bytes(unit) for unit in nal_units(head, size) if len(unit) and kind(unit[0]))
    return _READERS.get(codec)


def _h264_sps(first: int) -> bool:
    return first & 31 == _H264_SPS


def _hevc_sps(first: int) -> bool:
    return first >> 1 & 63 == _HEVC_SPS


def _after(mark: bytes, skip: int, size: int) -> Callable[[bytes], bytes]:
    """Reads `size` bytes that come `skip` bytes after `mark`."""

    def read(head: bytes) -> bytes:
        at = head.find(mark)
        return head[at + len(mark) + skip : at + len(mark) + skip + size] if at >= 0 else b""

    return read


def _jpeg(head: bytes) -> bytes:
    at = 2
    while at + 9 < len(head) and head[at] == 0xFF:
        if head[at + 1] in (0xC0, 0xC1, 0xC2):
            return head[at + 4 : at + 10]
        at += 2 + int.from_bytes(head[at + 2 : at + 4], "big")
    return b""


def _av1(head: bytes) -> bytes:
    at = 0
    while at + 2 < len(head) and head[at] & 2:
        kind, at = head[at] >> 3 & 15, at + (2 if head[at] & 4 else 1)
        size = shift = 0
        while at < len(head):
            byte, at = head[at], at + 1
            size |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        if kind == _AV1_SEQUENCE:
            return head[at : at + size]
        at += size
    return b""


_READERS: dict[str, Callable[[bytes], bytes]] = {
    "mpeg1video": _after(b"\0\0\1\xb3", 0, 3),
    "mpeg2video": _after(b"\0\0\1\xb3", 0, 3),
    "vp8": _after(b"\x9d\x01\x2a", 0, 4),
    "vp9": _after(b"\x49\x83\x42", 0, 5),
    "av1": _av1,
    "libdav1d": _av1,
    "prores": _after(b"icpf", 8, 4),
    "mjpeg": _jpeg,
}
