"""Where chroma samples lie between luma samples, and how to go from one grid to the other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from farm.media.frame import Frame, Plane

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Axis:
    """One direction of a chroma grid: sample i lies at luma position i · step + phase (pixel indexes)."""

    step: int
    phase: float

    def span(self, start: int, stop: int, size: int) -> tuple[int, int]:
        """Chroma samples whose footprint touches luma [start, stop), within a plane of `size` samples."""
        half = 0 if self.step == 1 else 1
        return max(0, start // self.step - half), min(size, -(-stop // self.step) + half)

    def taps(self) -> list[tuple[int, float]]:
        """(luma offset from i · step, weight) of a sample's footprint: a box one step wide around its position."""
        if self.step == 1:
            return [(0, 1.0)]
        low, high = self.phase - self.step / 2, self.phase + self.step / 2
        offsets = range(int(np.floor(low + 0.5)), int(np.ceil(high - 0.5)) + 1)
        weights = [min(high, o + 0.5) - max(low, o - 0.5) for o in offsets]
        return [(o, w / self.step) for o, w in zip(offsets, weights, strict=True) if w > 0]


def axes(frame: Frame) -> tuple[Axis, Axis]:
    """The horizontal and vertical chroma grid of a frame; silent ones are "left", as MPEG-2 and H.264 have it."""
    location = frame.colour.chroma_location
    step_x, step_y = 1 << frame.format.chroma_shift_x, 1 << frame.format.chroma_shift_y
    if location == "unknown":
        location = "left"
    phase_x = 0.0 if location in ("left", "topleft", "bottomleft") else (step_x - 1) / 2
    phase_y = (step_y - 1) / 2
    if location in ("topleft", "top"):
        phase_y = 0.0
    elif location in ("bottomleft", "bottom"):
        phase_y = float(step_y - 1)
    return Axis(step_x, phase_x), Axis(step_y, phase_y)


def upsample(plane: Plane, x: Axis, y: Axis, box: tuple[int, int, int, int]) -> Floats:
    """Chroma at each luma pixel of the box (left, top, right, bottom), bilinear, edges repeated: float32 (h, w)."""
    left, top, right, bottom = box
    if x.step == 1 and y.step == 1:
        return plane[top:bottom, left:right].astype(np.float32)
    height, width = plane.shape
    rows, (y0, y1) = _needed(y, top, bottom, height)
    columns, (x0, x1) = _needed(x, left, right, width)
    part = plane[y0:y1, x0:x1].astype(np.float32)
    if (y1 - y0, x1 - x0) != (len(rows), len(columns)):
        part = part[np.clip(rows, y0, y1 - 1)[:, None] - y0, np.clip(columns, x0, x1 - 1)[None, :] - x0]
    tall = _interpolated(part, y, top, bottom, rows.start)
    wide = _interpolated(tall.T, x, left, right, columns.start).T if x.step > 1 else tall
    return np.ascontiguousarray(wide)


def _needed(axis: Axis, start: int, stop: int, size: int) -> tuple[range, tuple[int, int]]:
    """Chroma indexes from which luma [start, stop) is interpolated, and the part of them that there is."""
    first = int(np.floor((start - axis.phase) / axis.step))
    last = int(np.floor((stop - 1 - axis.phase) / axis.step)) + 2
    return range(first, last), (min(max(first, 0), size - 1), min(max(last, 1), size))


def _interpolated(samples: Floats, axis: Axis, start: int, stop: int, origin: int) -> Floats:
    """Rows at luma positions [start, stop) from chroma rows that begin with index `origin`."""
    if axis.step == 1:
        return samples[start - origin : stop - origin]
    out = np.empty((stop - start, samples.shape[1]), np.float32)
    for offset in range(min(axis.step, stop - start)):
        place = (start + offset - axis.phase) / axis.step
        low = int(np.floor(place))
        part = np.float32(place - low)
        count = -(-(stop - start - offset) // axis.step)
        begin = low - origin
        near = samples[begin : begin + count]
        out[offset :: axis.step] = (
            near if part == 0 else near * (1 - part) + samples[begin + 1 : begin + 1 + count] * part
        )
    return out


def downsample(
    values: Floats, x: Axis, y: Axis, box: tuple[int, int, int, int], span: tuple[int, int, int, int]
) -> Floats:
    """Footprint averages of `values` (h, w, c), which are zero outside the box, at chroma [x0, x1) × [y0, y1).

    `span` is (x0, y0, x1, y1); the result is float32 (y1 - y0, x1 - x0, c).
    """
    left, top, right, bottom = box
    x0, y0, x1, y1 = span
    above, below = _margins(y, top, bottom, y0, y1)
    before, behind = _margins(x, left, right, x0, x1)
    padded = cv2.copyMakeBorder(values, above, below, before, behind, cv2.BORDER_CONSTANT, value=(0.0, 0.0, 0.0))
    rows = sum_of(
        padded[_taken(y0, y1, y.step, offset, top - above)] * np.float32(weight) for offset, weight in y.taps()
    )
    return sum_of(
        rows[:, _taken(x0, x1, x.step, offset, left - before)] * np.float32(weight) for offset, weight in x.taps()
    )


def sum_of(parts: Iterable[Floats]) -> Floats:
    """The sum of arrays of one shape, in place of the first."""
    first, *others = parts
    for other in others:
        first += other
    return first


def _margins(axis: Axis, start: int, stop: int, first: int, last: int) -> tuple[int, int]:
    """Zeros that are needed before and behind luma [start, stop) for chroma [first, last)."""
    taps = axis.taps()
    low, high = first * axis.step + taps[0][0], (last - 1) * axis.step + taps[-1][0] + 1
    return max(0, start - low), max(0, high - stop)


def _taken(first: int, last: int, step: int, offset: int, origin: int) -> slice:
    begin = first * step + offset - origin
    return slice(begin, begin + (last - first - 1) * step + 1, step)
