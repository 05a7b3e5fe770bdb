"""Semi-planar frames as the card's decoder gives them (NV12, P010), and the numbers with which kernels read them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farm.errors import InputError
from farm.media.chroma import Axis, axes
from farm.media.facts import ColourFacts
from farm.media.frame import Frame, SampleFormat
from farm.media.matrices import coding_of

Floats = NDArray[np.float32]
Samples = NDArray[Any]
"""uint8 (NV12) or uint16 (P010, value in the high ten bits), (count, height * 3 / 2, width): luma, then Cb, Cr."""

_PLANAR = {
    8: SampleFormat("yuv420p", "yuv", 8, 1, 1, False),
    10: SampleFormat("yuv420p10le", "yuv", 10, 1, 1, False),
}
_OFFSETS = (-1, 0, 1, 2)


@dataclass(frozen=True)
class Surface:
    """The layout and colour of a plate's semi-planar frames. `depth` is 8 (NV12) or 10 (P010)."""

    width: int
    height: int
    depth: int
    colour: ColourFacts

    def __post_init__(self) -> None:
        if self.width % 2 or self.height % 2 or self.depth not in _PLANAR:
            raise InputError(
                f"Frames of {self.width}×{self.height} with {self.depth} bits have no semi-planar 4:2:0 form here.",
                where="GPU path",
                do="Render this plate on the CPU path.",
            )

    @classmethod
    def of(cls, frame: Frame) -> Surface:
        """The surface that holds planar 4:2:0 frames like this one; InputError for any other format."""
        if frame.format.name not in {fmt.name for fmt in _PLANAR.values()}:
            raise InputError(
                f"The sample format {frame.format.name} has no form on the card.",
                where="GPU path",
                do="Render this plate on the CPU path.",
            )
        return cls(frame.width, frame.height, frame.format.depth, frame.colour)

    @property
    def dtype(self) -> type[np.generic]:
        return np.uint8 if self.depth == 8 else np.uint16

    @property
    def shift(self) -> int:
        """Bits that a stored sample lies above its value."""
        return 0 if self.depth == 8 else 16 - self.depth

    @property
    def rows(self) -> int:
        return self.height * 3 // 2

    @cached_property
    def planar(self) -> Frame:
        """An empty planar frame of this colour: what the media room's functions ask about colour."""
        shape = (self.height, self.width)
        half = (self.height // 2, self.width // 2)
        dtype = np.uint8 if self.depth == 8 else np.uint16
        planes = (np.zeros(shape, dtype), np.zeros(half, dtype), np.zeros(half, dtype))
        return Frame(planes, _PLANAR[self.depth], self.colour, 0, 0)

    @cached_property
    def code(self) -> Floats:
        """float32[35] as surface.cuh says."""
        coding = coding_of(self.planar)
        x, y = axes(self.planar)
        return np.concatenate(
            [
                coding.to_rgb.ravel(),
                coding.from_rgb.ravel(),
                np.array([x.phase, y.phase, coding.top], np.float32),
                _footprint(x),
                _footprint(y),
            ]
        ).astype(np.float32)

    def pack(self, frame: Frame, out: Samples) -> None:
        """A planar frame's samples into one semi-planar picture (rows, width)."""
        luma, cb, cr = frame.planes[:3]
        chroma = out[self.height :].reshape(self.height // 2, self.width // 2, 2)
        out[: self.height] = luma.astype(self.dtype) << self.shift
        chroma[..., 0] = cb.astype(self.dtype) << self.shift
        chroma[..., 1] = cr.astype(self.dtype) << self.shift

    def packed(self, frame: Frame) -> Samples:
        """A planar frame as a row of one semi-planar picture (1, rows, width), for a batch."""
        picture: Samples = np.empty((1, self.rows, self.width), self.dtype)
        self.pack(frame, picture[0])
        return picture

    def unpack(self, picture: Samples, like: Frame) -> Frame:
        """One semi-planar picture (rows, width) as a planar frame with the clock and side data of `like`."""
        chroma = picture[self.height :].reshape(self.height // 2, self.width // 2, 2) >> self.shift
        planes = (picture[: self.height] >> self.shift, chroma[..., 0], chroma[..., 1])
        return replace(like, planes=tuple(np.ascontiguousarray(plane) for plane in planes))

    def split(self, picture: Samples, like: Frame) -> Frame:
        """One planar picture (rows, width; see `planar.planar`) as a frame whose planes are views of it."""
        size, half = self.width * self.height, (self.height // 2, self.width // 2)
        flat = picture.reshape(-1)
        chroma = (flat[size : size * 5 // 4].reshape(half), flat[size * 5 // 4 :].reshape(half))
        return replace(like, planes=(picture[: self.height], *chroma))


def _footprint(axis: Axis) -> Floats:
    """Weights of luma offsets -1, 0, 1, 2 in a chroma sample's footprint."""
    weights = dict(axis.taps())
    return np.array([weights.get(offset, 0.0) for offset in _OFFSETS], np.float32)
