"""Regions of a frame as R'G'B' and back into the frame's own samples.

The RGB is display-referred and non-linear: the plate's own primaries and transfer (BT.709, PQ, HLG, ...), only the
matrix and the range are undone. Nothing outside the mask changes by one bit; values are rounded, not cut off.

A box is (left, top, right, bottom) in luma pixels of the coded picture, right and bottom not included.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from farm.media.chroma import Axis, axes, downsample, upsample
from farm.media.frame import Frame, Plane
from farm.media.matrices import Coding, coding_of
from farm.media.preview import upright_preview

__all__ = ["Blend", "Box", "blends_of", "paste_rgb", "region_to_rgb", "upright_preview"]

Box = tuple[int, int, int, int]
Floats = NDArray[np.float32]


def region_to_rgb(frame: Frame, box: Box) -> Floats:
    """float32 (h, w, 3), channels R, G, B, nominally 0..1; colours that YUV can say and RGB cannot lie beyond.

    Chroma is interpolated (bilinear) from where the plate says its samples lie. Alpha is left out. Raises ValueError
    for a box that is empty or leaves the frame.
    """
    _check(frame, box)
    coding = coding_of(frame)
    left, top, right, bottom = box
    first = frame.planes[0][top:bottom, left:right].astype(np.float32)
    if frame.format.family == "gray":
        scaled = first * coding.to_rgb[0, 0] + np.float32(coding.to_rgb[0] @ _grey_offset(frame))
        return np.repeat(scaled[:, :, None], 3, axis=2)
    if frame.format.family == "rgb":
        blue, red = (frame.planes[i][top:bottom, left:right].astype(np.float32) for i in (1, 2))
        samples = cv2.merge([red, first, blue])
    else:
        x, y = axes(frame)
        samples = cv2.merge([first, upsample(frame.planes[1], x, y, box), upsample(frame.planes[2], x, y, box)])
    return np.asarray(cv2.transform(samples, coding.to_rgb), np.float32)


@dataclass(frozen=True)
class Blend:
    """What a mask and a picture do to one plane, whatever the frame shows there.

    Attributes
    ----------
    plane: its number. span: (left, top, right, bottom) in samples of that plane.
    values, weight: float32 of the span's shape. A full plane's sample s becomes s + weight · (values - s); a subsampled
        plane's (`averaged`) s · weight + values. Rounded, cut to 0..top.
    """

    plane: int
    span: Box
    values: Floats
    weight: Floats
    averaged: bool
    top: int

    def onto(self, planes: tuple[Plane, ...]) -> None:
        """Blend into a frame's planes, in place."""
        left, top, right, bottom = self.span
        target = planes[self.plane][top:bottom, left:right]
        if self.averaged:
            target[:] = _rounded(target.astype(np.float32) * self.weight + self.values, self.top)
            return
        old = target.astype(np.float32)
        values = self.values - old
        values *= self.weight
        values += old
        target[:] = _rounded(values, self.top)


def paste_rgb(frame: Frame, box: Box, rgb: Floats, mask: Floats) -> None:
    """Blend `rgb` (h, w, 3) into the frame's samples in the box, in place, by `mask` (h, w) of 0..1.

    A luma (or RGB) sample whose mask is 0 keeps its bits; so does a chroma sample whose whole footprint has mask 0. A
    chroma sample gets the mask-weighted average over its footprint, a box one chroma step wide around its own
    position. Alpha is left alone. Raises ValueError for shapes that do not fit.
    """
    for blend in blends_of(frame, box, rgb, mask):
        blend.onto(frame.planes)


def blends_of(frame: Frame, box: Box, rgb: Floats, mask: Floats) -> list[Blend]:
    """`paste_rgb` in two steps: what is to be done to each plane of frames of this size, format and colour."""
    _check(frame, box)
    left, top, right, bottom = box
    if rgb.shape != (bottom - top, right - left, 3) or mask.shape != rgb.shape[:2]:
        raise ValueError(f"A box of {right - left}×{bottom - top} got rgb {rgb.shape} and mask {mask.shape}.")
    coding = coding_of(frame)
    weight = np.ascontiguousarray(mask, np.float32)
    samples = _samples(rgb, weight, coding)

    def full(plane: int, values: Floats) -> Blend:
        return Blend(plane, box, values, weight, averaged=False, top=coding.top)

    if frame.format.family == "rgb":
        return [full(plane, samples[channel]) for plane, channel in ((0, 1), (1, 2), (2, 0))]
    blends = [full(0, samples[0])]
    if frame.format.family == "yuv":
        x, y = axes(frame)
        if x.step == 1 and y.step == 1:
            return [*blends, *(full(plane, samples[plane]) for plane in (1, 2))]
        blends += _chroma_blends(frame, samples[1:], weight, x, y, box, coding.top)
    return blends


def _samples(rgb: Floats, weight: Floats, coding: Coding) -> list[Floats]:
    """`rgb` in the frame's code values, one array a channel; what lies under mask 0 may be anything."""
    whole = np.asarray(cv2.transform(np.ascontiguousarray(rgb, np.float32), coding.from_rgb), np.float32)
    # A sum is not finite when any of its parts is not, and costs a tenth of asking each.
    if not np.isfinite(whole.sum(dtype=np.float64)):
        whole[weight <= 0] = 0.0
        if not np.isfinite(whole).all():
            raise ValueError("Under the mask the RGB has values that are no number.")
    return [np.asarray(channel, np.float32) for channel in cv2.split(whole)]


def _grey_offset(frame: Frame) -> Floats:
    """Neutral chroma and the constant, so that a grey sample goes through the same matrix as a coloured one."""
    half = float(1 << (frame.format.depth - 1))
    return np.array([0.0, half, half, 1.0], np.float32)


def _chroma_blends(
    frame: Frame, values: list[Floats], weight: Floats, x: Axis, y: Axis, box: Box, top: int
) -> list[Blend]:
    height, width = frame.planes[1].shape
    x0, x1 = x.span(box[0], box[2], width)
    y0, y1 = y.span(box[1], box[3], height)
    heard = cv2.merge([weight, values[0] * weight, values[1] * weight])
    averages = downsample(np.asarray(heard, np.float32), x, y, box, (x0, y0, x1, y1))
    kept = np.float32(1) - np.minimum(averages[:, :, 0], 1.0)
    return [Blend(plane, (x0, y0, x1, y1), averages[:, :, plane], kept, averaged=True, top=top) for plane in (1, 2)]


def _rounded(values: Floats, top: int) -> Floats:
    np.rint(values, out=values)
    return np.clip(values, 0, top, out=values)


def _check(frame: Frame, box: Box) -> None:
    left, top, right, bottom = box
    if not (0 <= left < right <= frame.width and 0 <= top < bottom <= frame.height):
        raise ValueError(f"The box {box} is empty or leaves the {frame.width}×{frame.height} frame.")
