"""A decoded picture in its own sample format, as NumPy planes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farm.media.facts import ColourFacts

Plane = NDArray[np.uint8] | NDArray[np.uint16]


@dataclass(frozen=True, slots=True)
class SampleFormat:
    """A planar sample format.

    Attributes
    ----------
    name: FFmpeg's name ("yuv420p10le").
    family: "yuv", "rgb" (planes in FFmpeg's gbrp order: G, B, R) or "gray".
    depth: bits a sample: 8 gives uint8 planes, 9 to 16 uint16 planes with the value in the low bits.
    chroma_shift_x, chroma_shift_y: log2 of the chroma subsampling (4:2:0 is 1, 1).
    alpha: whether a last, full-size plane holds alpha.
    """

    name: str
    family: str
    depth: int
    chroma_shift_x: int
    chroma_shift_y: int
    alpha: bool


@dataclass(slots=True)
class Frame:
    """One picture.

    Attributes
    ----------
    planes: Y, U, V[, A] or G, B, R[, A] or Y: 2-D arrays, C-contiguous rows; chroma planes have the subsampled size
        rounded up.
    format, colour: how to read the samples.
    pts: presentation time in ticks of the plate's time base.
    index: position in the timeline (0 is the plate's first frame).
    concealed: True where this frame could not be decoded and repeats the one before.
    side_data: what must travel to the encoder with this frame (opaque to everyone but `farm.media`).
    """

    planes: tuple[Plane, ...]
    format: SampleFormat
    colour: ColourFacts
    pts: int
    index: int
    concealed: bool = False
    side_data: Any = None

    @property
    def width(self) -> int:
        return int(self.planes[0].shape[1])

    @property
    def height(self) -> int:
        return int(self.planes[0].shape[0])


@dataclass(slots=True)
class CardFrame(Frame):
    """A frame whose samples lie on the card that decoded it: `planes` is empty, `picture` (PyAV's) owns them.

    The decoder has few pictures: let it go soon.
    """

    picture: Any = None
