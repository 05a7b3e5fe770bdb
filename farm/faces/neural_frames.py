"""Processors that work on whole frames: upscale, and restore with the scope "frame"."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

from farm.faces.neural_contract import check_contract
from farm.faces.neural_processors import Shrunk
from farm.faces.neural_settings import RestoreSettings, UpscaleSettings
from farm.faces.neural_source import Loads
from farm.faces.neural_upscale import Upscaler
from farm.media.colour import paste_rgb, region_to_rgb
from farm.media.frame import Frame
from farm.media.tonemap import Floats, tone_map_of


class FrameProcessor(Protocol):
    """Makes a frame of a frame; the result depends on that frame alone. `scale`: by how much its sides grow.

    The second value is False where the network gave nothing usable and the frame is what it was, at the right size.
    """

    scale: int

    def apply(self, frame: Frame) -> tuple[Frame, bool]: ...


class FrameUpscale:
    """The frame at `scale` times its size. Memory: the large picture in float, twice."""

    def __init__(self, models: Loads, model: str, settings: UpscaleSettings) -> None:
        check_contract(models.load(model, settings.precision).spec, settings)
        self._upscaler = Upscaler(
            models, model, precision=settings.precision, tile=settings.tile, overlap=settings.overlap
        )
        self.scale = self._upscaler.scale

    def apply(self, frame: Frame) -> tuple[Frame, bool]:
        """A new, larger frame; enlarged by interpolation where the network gives nothing usable."""
        look = tone_map_of(frame.colour)
        rgb = region_to_rgb(frame, (0, 0, frame.width, frame.height))
        large = self._upscaler.upscale_or_none(look.seen(rgb))
        size = (frame.width * self.scale, frame.height * self.scale)
        plate = np.asarray(cv2.resize(rgb, size, interpolation=cv2.INTER_CUBIC), np.float32)
        grown = replace(frame, planes=tuple(self._blank(frame, number, size) for number in range(len(frame.planes))))
        made = plate if large is None else look.back(large, plate)
        paste_rgb(grown, (0, 0, *size), made, _everywhere(made))
        return grown, large is not None

    def _blank(self, frame: Frame, number: int, size: tuple[int, int]) -> NDArray[Any]:
        """The plane to be painted; alpha is enlarged."""
        plane = frame.planes[number]
        if frame.format.alpha and number == len(frame.planes) - 1:
            return np.asarray(cv2.resize(plane, size, interpolation=cv2.INTER_LINEAR), plane.dtype)
        chroma = frame.format.family == "yuv" and number in (1, 2)
        across = -(-size[0] >> frame.format.chroma_shift_x) if chroma else size[0]
        down = -(-size[1] >> frame.format.chroma_shift_y) if chroma else size[1]
        return np.zeros((down, across), plane.dtype)


class FrameRestore:
    """The frame cleaned by an upscaler at its own size."""

    scale = 1

    def __init__(self, models: Loads, model: str, settings: RestoreSettings) -> None:
        check_contract(models.load(model, settings.precision).spec, settings)
        blend = 1.0 if settings.blend is None else settings.blend
        self._shrunk = Shrunk(models, model, precision=settings.precision, blend=blend)

    def apply(self, frame: Frame) -> tuple[Frame, bool]:
        """The same frame, changed in place; left as it was where the network gives nothing usable."""
        look = tone_map_of(frame.colour)
        box = (0, 0, frame.width, frame.height)
        rgb = region_to_rgb(frame, box)
        made = self._shrunk.picture(look.seen(rgb))
        if made is not None:
            paste_rgb(frame, box, look.back(made, rgb), _everywhere(rgb))
        return frame, made is not None


def _everywhere(rgb: Floats) -> Floats:
    return np.ones(rgb.shape[:2], np.float32)
