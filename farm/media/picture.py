"""Frames of the farm as pictures for an encoder: padding, conversion by FFmpeg's filters, burnt-in timecode."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import av
import av.filter
import cv2
import numpy as np
from numpy.typing import NDArray

from farm.errors import InputError, RecipeError
from farm.media.deliverables import Source
from farm.media.encoders import EncoderPlan, colour_numbers
from farm.media.frame import Frame, Plane
from farm.media.planes import planar_format

Mask = NDArray[np.uint8]


def picture_of(planes: tuple[Plane, ...], sample_format: str) -> av.VideoFrame:
    """A VideoFrame with a copy of the planes of a planar format ("yuv420p10le", "gbrap", "gray", "ya8")."""
    height, width = planes[0].shape
    picture = av.VideoFrame(width, height, sample_format)
    if sample_format in ("ya8", "ya16le"):
        pair: NDArray[Any] = np.stack(planes, axis=-1).reshape(height, width * 2)
        _rows(picture, 0, pair.dtype)[:, : width * 2] = pair
        return picture
    for index, plane in enumerate(planes):
        _rows(picture, index, plane.dtype)[:, : plane.shape[1]] = plane
    return picture


def lent_picture(planes: tuple[Plane, ...], sample_format: str) -> av.VideoFrame:
    """A VideoFrame of the planes themselves where they lie in a row in one piece of memory, else of a copy.

    The memory is kept until the picture is gone, and whoever has it; nobody may write to it, nor to the picture.
    FFmpeg's way from memory knows 8 bits, 4:2:0, and heights that four divides.
    """
    whole = _in_a_row(planes) if sample_format == "yuv420p" and planes[0].shape[0] % 4 == 0 else None
    if whole is None:
        return picture_of(planes, sample_format)
    height, width = planes[0].shape
    return av.VideoFrame.from_numpy_buffer(whole.reshape(height * 3 // 2, width), sample_format)


def _in_a_row(planes: tuple[Plane, ...]) -> NDArray[Any] | None:
    """The bytes of the planes, where they are views of one array and lie in it one behind the other."""
    owner = planes[0].base
    if not isinstance(owner, np.ndarray) or not owner.flags.c_contiguous:
        return None
    first = place = planes[0].ctypes.data
    for plane in planes:
        if plane.base is not owner or not plane.flags.c_contiguous or plane.ctypes.data != place:
            return None
        place += plane.nbytes
    start = owner.ctypes.data
    bytes_: NDArray[Any] = owner.reshape(-1).view(np.uint8)[first - start : place - start]
    return bytes_


def _rows(picture: av.VideoFrame, index: int, dtype: Any) -> NDArray[Any]:
    """A writable view of a plane's rows, line padding included."""
    plane = picture.planes[index]
    samples = plane.line_size // np.dtype(dtype).itemsize
    rows: NDArray[Any] = np.frombuffer(memoryview(plane), dtype)[: samples * plane.height].reshape(
        plane.height, samples
    )
    return rows


class PictureMaker:
    """Turns frames into the pictures that the plan's encoder takes; one for a chunk. Memory: one picture."""

    def __init__(self, plan: EncoderPlan) -> None:
        self._plan = plan
        self._graph: av.filter.Graph | None = None
        self._format = planar_format(plan.source_format)

    def make(self, frame: Frame, *, mask: Mask | None = None, label: str = "") -> av.VideoFrame:
        """The picture of `frame`, or of `mask` (uint8 of the frame's size) where the deliverable is a matte.

        InputError where the frame is not what the plan says; RecipeError where a mask is needed and there is none.
        """
        plan = self._plan
        self._check(frame, mask)
        planes: tuple[Plane, ...] = frame.planes
        if plan.source is Source.MASK and mask is not None:
            planes = (mask,)
        written = bool(plan.filters) or plan.source is Source.FACE or plan.burn_in
        picture = (picture_of if written else lent_picture)(self._padded(planes), plan.source_format)
        if plan.filters:
            picture = self._filtered(picture)
        if plan.source is Source.FACE and mask is not None:
            _cut_out(picture, np.pad(mask, ((0, plan.pad_bottom), (0, plan.pad_right)), mode="edge"))
        if plan.burn_in:
            _burn_in(picture, label)
        # ProRes takes its colour tags from the picture, not from the encoder's settings.
        tags = colour_numbers(plan.colour)
        picture.color_primaries, picture.color_trc = tags["color_primaries"], tags["color_trc"]
        picture.colorspace, picture.color_range = tags["colorspace"], tags["color_range"]
        return picture

    def _check(self, frame: Frame, mask: Mask | None) -> None:
        plan, where = self._plan, f"frame {frame.index}, deliverable {self._plan.deliverable}"
        if plan.source is not Source.PICTURE and (mask is None or mask.shape != frame.planes[0].shape):
            raise RecipeError("The renderer gave no face mask of the frame's size.", where=where)
        size = frame.width, frame.height
        if plan.source is not Source.MASK and frame.format.name != plan.source_format:
            what = f"The frame's samples are {frame.format.name}, the plan says {plan.source_format}."
        elif size != (plan.source_width, plan.source_height):
            what = f"The frame is {size[0]}×{size[1]}, the plan says {plan.source_width}×{plan.source_height}."
        else:
            return
        raise InputError(what, where=where, do="The plate changes its picture there: cut it in two at this frame.")

    def _padded(self, planes: tuple[Plane, ...]) -> tuple[Plane, ...]:
        plan = self._plan
        if not (plan.pad_right or plan.pad_bottom):
            return planes
        width, height = plan.source_width + plan.pad_right, plan.source_height + plan.pad_bottom
        padded: list[Plane] = []
        for index, plane in enumerate(planes):
            chroma = self._format.family == "yuv" and index in (1, 2)
            across = -(-width >> self._format.chroma_shift_x) if chroma else width
            down = -(-height >> self._format.chroma_shift_y) if chroma else height
            more: Any = np.pad(plane, ((0, down - plane.shape[0]), (0, across - plane.shape[1])), mode="edge")
            padded.append(more)
        return tuple(padded)

    def _filtered(self, picture: av.VideoFrame) -> av.VideoFrame:
        if self._graph is None:
            self._graph = _graph(picture, self._plan)
        picture.pts = 0
        self._graph.push(picture)
        filtered = self._graph.pull()
        if not isinstance(filtered, av.VideoFrame):
            raise RecipeError("The conversion gave no picture.", where=f"deliverable {self._plan.deliverable}")
        return filtered


def _graph(picture: av.VideoFrame, plan: EncoderPlan) -> av.filter.Graph:
    graph = av.filter.Graph()
    graph.threads = 1
    last = graph.add_buffer(
        width=picture.width, height=picture.height, format=picture.format, time_base=1 / Fraction(plan.rate)
    )
    for name, arguments in [*plan.filters, ("buffersink", "")]:
        node = graph.add(name, arguments) if arguments else graph.add(name)
        last.link_to(node)
        last = node
    graph.configure()
    return graph


def _cut_out(picture: av.VideoFrame, mask: Mask) -> None:
    """Make `mask` the alpha of a yuva444p10 picture and blacken what it leaves out, so that only the face is there."""
    shown = mask > 0
    width = mask.shape[1]
    for index, neutral in enumerate((64, 512, 512)):
        rows = _rows(picture, index, np.uint16)[:, :width]
        np.copyto(rows, np.uint16(neutral), where=~shown)
    alpha = (mask.astype(np.uint32) * 1023 + 127) // 255
    _rows(picture, 3, np.uint16)[:, :width] = alpha.astype(np.uint16)


_FONT = cv2.FONT_HERSHEY_SIMPLEX


def _burn_in(picture: av.VideoFrame, label: str) -> None:
    """Write `label` in white on black at the bottom of an 8-bit luma plane."""
    luma = _rows(picture, 0, np.uint8)[:, : picture.width]
    scale = max(0.3, picture.height / 720)
    (width, height), below = cv2.getTextSize(label, _FONT, scale, 1)
    left, base = max(0, (picture.width - width) // 2), max(height + 2, picture.height - below - 4)
    top = max(0, base - height - 3)
    for index, neutral in enumerate((16, 128, 128)):
        shift = 0 if index == 0 else 1
        rows = _rows(picture, index, np.uint8)
        rows[top >> shift : (base + below) >> shift, max(0, left - 4) >> shift : (left + width + 4) >> shift] = neutral
    text = np.zeros(luma.shape, np.uint8)
    cv2.putText(text, label, (left, base), _FONT, scale, 235, 1, cv2.LINE_AA)
    np.maximum(luma, text, out=luma)
