"""Where decoding may start so that every later picture (in presentation order) comes out bit-exact.

A container's key flag is not enough: an H.264 stream with periodic intra refresh flags pictures from which the whole
picture is right only some frames later. So H.264, H.265 and H.266 packets are looked into: NAL unit types as in ITU-T
H.264 table 7-1, H.265 table 7-1 and H.266 table 5, recovery point SEI as in H.264 D.1.8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from farm.media import limits

_H264_IDR, _H264_SEI = 5, 6
_H264_SLICES = range(1, 6)
_RECOVERY_POINT = 6
_HEVC_IRAP = range(16, 22)
_HEVC_SLICES = range(32)
_VVC_IRAP = (7, 8, 9)
_VVC_SLICES = range(12)
_STATEFUL_CANVAS = frozenset(("gif", "apng", "qtrle", "flashsv", "flashsv2"))


def start_test(codec: str, extradata: bytes | None) -> Callable[[bytes, bool, int], bool]:
    """A function (data, key flag, ordinal) → whether decoding may start at this packet.

    `codec` is FFmpeg's codec name, `extradata` the stream's, which says how NAL units are framed.
    """
    if codec in limits.INTRA_ONLY:
        return lambda data, key, ordinal: True
    if codec in _STATEFUL_CANVAS:
        # Each picture is drawn over the one before, whatever the flags say.
        return lambda data, key, ordinal: ordinal == 0
    looks = {"h264": _is_h264_start, "hevc": _is_hevc_start, "vvc": _is_vvc_start}.get(codec)
    if looks is None:
        return lambda data, key, ordinal: key
    size = length_size(codec, extradata)
    return lambda data, key, ordinal: key and looks(nal_units(data, size))


def length_size(codec: str, extradata: bytes | None) -> int:
    """Bytes of the length before each NAL unit, 0 where start codes separate them (Annex B)."""
    if not extradata or extradata[:3] in (b"\0\0\1", b"\0\0\0"):
        return 0
    if codec == "h264":
        return (extradata[4] & 3) + 1 if extradata[0] == 1 and len(extradata) > 6 else 0
    if codec == "hevc":
        return (extradata[21] & 3) + 1 if len(extradata) > 22 else 0
    return ((extradata[0] >> 1) & 3) + 1


def nal_units(data: bytes, length: int) -> Iterator[memoryview]:
    """The NAL units of a packet, without their framing; stops at the first that does not fit."""
    view = memoryview(data)
    if length:
        at = 0
        while at + length < len(data):
            size = int.from_bytes(data[at : at + length], "big")
            at += length
            if size == 0 or at + size > len(data):
                return
            yield view[at : at + size]
            at += size
        return
    start = data.find(b"\0\0\1")
    while start >= 0:
        end = data.find(b"\0\0\1", start + 3)
        yield view[start + 3 : end if end >= 0 else len(data)]
        start = end


def _is_h264_start(units: Iterator[memoryview]) -> bool:
    recovers = False
    for unit in units:
        kind = unit[0] & 31 if len(unit) else 0
        if kind == _H264_SEI:
            recovers = recovers or recovery_frames(bytes(unit[1:])) == 0
        elif kind in _H264_SLICES:
            return kind == _H264_IDR or recovers
    return False


def _is_hevc_start(units: Iterator[memoryview]) -> bool:
    for unit in units:
        kind = (unit[0] >> 1) & 63 if len(unit) else 63
        if kind in _HEVC_SLICES:
            return kind in _HEVC_IRAP
    return False


def _is_vvc_start(units: Iterator[memoryview]) -> bool:
    for unit in units:
        kind = unit[1] >> 3 if len(unit) > 1 else 31
        if kind in _VVC_SLICES:
            return kind in _VVC_IRAP
    return False


def recovery_frames(sei: bytes) -> int | None:
    """recovery_frame_cnt of the recovery point in an H.264 SEI unit (its header byte cut off), None without one."""
    payload = sei.replace(b"\0\0\3", b"\0\0")
    at = 0
    while at + 2 < len(payload):
        kind, at = _ff_coded(payload, at)
        size, at = _ff_coded(payload, at)
        if kind == _RECOVERY_POINT:
            return _exp_golomb(payload[at : at + size])
        at += size
    return None


def _ff_coded(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    while at < len(data) and data[at] == 255:
        value, at = value + 255, at + 1
    return value + (data[at] if at < len(data) else 0), at + 1


def _exp_golomb(data: bytes) -> int | None:
    bits = "".join(f"{byte:08b}" for byte in data[:8])
    zeros = len(bits) - len(bits.lstrip("0"))
    code = bits[zeros : 2 * zeros + 1]
    return int(code, 2) - 1 if len(code) == zeros + 1 else None
