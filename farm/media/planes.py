"""Decoded pictures as NumPy planes in a planar format, without loss.

Semi-planar, packed, palette and big-endian formats become their planar little-endian twins: nv12 → yuv420p, p010le →
yuv420p10le, rgb24 → gbrp, pal8 → gbrap, yuvj420p → yuv420p (with full range). Samples are copied, never scaled.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from av import VideoFrame
from av.video.format import VideoFormat
from numpy.typing import NDArray

from farm.errors import InputError
from farm.media.frame import Plane, SampleFormat

Samples = NDArray[Any]


@dataclass(frozen=True, slots=True)
class _Twin:
    """How samples lie in memory: `order` maps planar planes to packed components, `shift` drops low padding bits."""

    planar: str
    order: tuple[int, ...] = ()
    shift: int = 0


_SEMI_PLANAR = {
    "nv12": _Twin("yuv420p", (0, 1)),
    "nv21": _Twin("yuv420p", (1, 0)),
    "nv16": _Twin("yuv422p", (0, 1)),
    "nv24": _Twin("yuv444p", (0, 1)),
    "nv42": _Twin("yuv444p", (1, 0)),
    **{f"p0{d}le": _Twin(f"yuv420p{d}le", (0, 1), 16 - int(d)) for d in ("10", "12", "16")},
    **{f"p2{d}le": _Twin(f"yuv422p{d}le", (0, 1), 16 - int(d)) for d in ("10", "12", "16")},
    **{f"p4{d}le": _Twin(f"yuv444p{d}le", (0, 1), 16 - int(d)) for d in ("10", "12", "16")},
}
_PACKED = {
    "rgb24": _Twin("gbrp", (1, 2, 0)),
    "bgr24": _Twin("gbrp", (1, 0, 2)),
    "rgb0": _Twin("gbrp", (1, 2, 0)),
    "bgr0": _Twin("gbrp", (1, 0, 2)),
    "0rgb": _Twin("gbrp", (2, 3, 1)),
    "0bgr": _Twin("gbrp", (2, 1, 3)),
    "rgba": _Twin("gbrap", (1, 2, 0, 3)),
    "bgra": _Twin("gbrap", (1, 0, 2, 3)),
    "argb": _Twin("gbrap", (2, 3, 1, 0)),
    "abgr": _Twin("gbrap", (2, 1, 3, 0)),
    **{f"rgb48{e}": _Twin("gbrp16le", (1, 2, 0)) for e in ("le", "be")},
    **{f"bgr48{e}": _Twin("gbrp16le", (1, 0, 2)) for e in ("le", "be")},
    **{f"rgba64{e}": _Twin("gbrap16le", (1, 2, 0, 3)) for e in ("le", "be")},
    **{f"bgra64{e}": _Twin("gbrap16le", (1, 0, 2, 3)) for e in ("le", "be")},
    "ya8": _Twin("ya8", (0, 1)),
    "ya16le": _Twin("ya16le", (0, 1)),
    "ya16be": _Twin("ya16le", (0, 1)),
    "vuya": _Twin("yuva444p", (2, 1, 0, 3)),
    "ayuv64le": _Twin("yuva444p16le", (1, 2, 3, 0)),
}
_PACKED_422 = {"yuyv422": (0, 1, 3), "yvyu422": (0, 3, 1), "uyvy422": (1, 0, 2)}
_FULL_RANGE = {f"yuvj{s}": f"yuv{s}" for s in ("420p", "422p", "444p", "440p", "411p")}
_VIA_SWSCALE = {
    "monow": "gray",
    "monob": "gray",
    "rgb555le": "gbrp",
    "rgb565le": "gbrp",
    "bgr8": "gbrp",
    "rgb8": "gbrp",
}


@lru_cache(maxsize=64)
def planar_format(name: str) -> SampleFormat:
    """The planar twin of FFmpeg's sample format `name`; InputError where there is none without loss."""
    planar = _planar_name(name)
    if planar in ("ya8", "ya16le"):
        return SampleFormat(planar, "gray", 8 if planar == "ya8" else 16, 0, 0, alpha=True)
    fmt = VideoFormat(planar, 64, 64)
    depths = {c.bits for c in fmt.components}
    depth = next(iter(depths))
    if len(depths) != 1 or not 8 <= depth <= 16 or "f32" in planar or "xyz" in planar or "f16" in planar:
        raise _unsupported(name)
    family = "rgb" if fmt.is_rgb else "yuv" if len(fmt.components) >= 3 else "gray"
    shift_x = shift_y = 0
    if family == "yuv":
        shift_x, shift_y = (
            (64 // fmt.components[1].width).bit_length() - 1,
            (64 // fmt.components[1].height).bit_length() - 1,
        )
    return SampleFormat(planar, family, depth, shift_x, shift_y, alpha=len(fmt.components) in (2, 4))


def _planar_name(name: str) -> str:
    for table in (_SEMI_PLANAR, _PACKED):
        if name in table:
            return table[name].planar
    if name in _PACKED_422:
        return "yuv422p"
    if name == "pal8":
        return "gbrap"
    name = _VIA_SWSCALE.get(name, _FULL_RANGE.get(name, name))
    if name.endswith("be"):
        name = f"{name[:-2]}le"
    try:
        fmt = VideoFormat(name, 64, 64)
    except ValueError:
        raise _unsupported(name) from None
    if fmt.is_bit_stream or fmt.has_palette or (len(fmt.components) > 1 and not fmt.is_planar):
        raise _unsupported(name)
    return name


def _unsupported(name: str) -> InputError:
    return InputError(
        f"The sample format {name!r} is not supported.",
        where="the plate's picture",
        do="Convert it to a planar YUV, RGB or grey format of 8 to 16 bits.",
    )


def is_full_range_format(name: str) -> bool:
    """Whether the format's own name says full range (FFmpeg's yuvj formats)."""
    return name in _FULL_RANGE


def to_planes(frame: VideoFrame) -> tuple[tuple[Plane, ...], SampleFormat]:
    """Own copies of the samples of `frame` (never the decoder's memory) and their format."""
    name = frame.format.name
    if name in _VIA_SWSCALE:
        frame = frame.reformat(format=_VIA_SWSCALE[name])
        name = frame.format.name
    target = planar_format(name)
    return tuple(np.ascontiguousarray(p) for p in _split(frame, name, target)), target


def _split(frame: VideoFrame, name: str, target: SampleFormat) -> list[Samples]:
    if name == "pal8":
        palette = np.frombuffer(memoryview(frame.planes[1]), np.uint8)[: 256 * 4].reshape(256, 4)
        indices = _rows(frame, 0, np.dtype(np.uint8), frame.width)
        return [palette[:, c][indices] for c in (1, 0, 2, 3)]
    if name in _PACKED:
        twin = _PACKED[name]
        dtype = _dtype(name, 16 if target.depth > 8 else 8)
        components = 4 if name in ("rgb0", "bgr0", "0rgb", "0bgr") else len(twin.order)
        whole = _rows(frame, 0, dtype, frame.width * components).reshape(frame.height, frame.width, components)
        return [_native(whole[:, :, c]) for c in twin.order]
    if name in _PACKED_422:
        return _split_422(frame, _PACKED_422[name])
    dtype = _dtype(name, target.depth)
    luma = _rows(frame, 0, dtype, frame.width)
    if name in _SEMI_PLANAR:
        twin = _SEMI_PLANAR[name]
        chroma = _rows(frame, 1, dtype, frame.planes[1].width * 2)
        pair = [chroma[:, twin.order[0] :: 2], chroma[:, twin.order[1] :: 2]]
        return [plane >> twin.shift if twin.shift else plane.copy() for plane in (luma, *pair)]
    count = len(frame.planes)
    return [_native(_rows(frame, i, dtype, frame.planes[i].width)) for i in range(count)]


def _split_422(frame: VideoFrame, order: tuple[int, int, int]) -> list[Samples]:
    pairs = (frame.width + 1) // 2
    row = _rows(frame, 0, np.dtype(np.uint8), pairs * 4).reshape(frame.height, pairs, 4)
    first, u, v = order
    luma = row[:, :, (first, first + 2)].reshape(frame.height, pairs * 2)[:, : frame.width]
    return [luma.copy(), row[:, :, u].copy(), row[:, :, v].copy()]


def _dtype(name: str, depth: int) -> np.dtype[Any]:
    return np.dtype(np.uint8) if depth <= 8 else np.dtype(">u2" if name.endswith("be") else "<u2")


def _rows(frame: VideoFrame, index: int, dtype: np.dtype[Any], samples: int) -> Samples:
    """A view of the first `samples` of each row; a negative line size (bottom-up pictures) is turned over."""
    plane = frame.planes[index]
    stride = abs(plane.line_size)
    height = plane.height if plane.height else frame.height
    whole: Samples = np.frombuffer(memoryview(plane), np.uint8)[: stride * height].reshape(height, stride)
    if samples * dtype.itemsize > stride:
        raise InputError("A decoded picture is smaller than its header says.", where="the plate's picture")
    view: Samples = whole[:, : samples * dtype.itemsize].view(dtype)
    return view[::-1] if plane.line_size < 0 else view


def _native(samples: Samples) -> Samples:
    """A copy in the machine's byte order."""
    return np.array(samples, dtype=np.uint8 if samples.dtype.itemsize == 1 else np.uint16)
