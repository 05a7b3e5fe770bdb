"""The visible label: a pre-rendered bitmap blended into the frame's own samples.

The letters of its first line are at least 5 % of the shorter side high (GB 45438-2025 §5.4): a font of 7.3 % of the
shorter side gives capitals of that height. The label stands upright in the bottom left corner of the picture as a
player shows it, inside the title-safe area (5 % of each side), in every frame.
"""

from __future__ import annotations

from importlib import resources

import cv2
import numpy as np
from numpy.typing import NDArray

from farm.errors import InputError
from farm.media.colour import Blend, blends_of
from farm.media.facts import ColourFacts, VideoFacts
from farm.media.frame import Frame, SampleFormat

_EM = 160  # font size of the bitmap's first line, pixels (tools/render_label.py)
_FONT_SHARE = 0.073
_SAFE_SHARE = 0.05
_OPACITY = 0.9

# Signal level of the letters: diffuse white. In PQ full scale is 10,000 cd/m², and 203 cd/m² (ITU-R BT.2408) is .58; in
# HLG it is .75.
_WHITE = {"smpte2084": 0.58, "arib-std-b67": 0.75}

Box = tuple[int, int, int, int]


class Label:
    """The label for one plate: made once, blended into each frame.

    Parameters
    ----------
    facts: the plate's picture stream; size, rotation and transfer decide the bitmap.

    Attributes
    ----------
    box: (x0, y0, x1, y1) of the label in coded pixels; samples outside it are never touched.
    """

    def __init__(self, facts: VideoFacts) -> None:
        turned = facts.rotation in (90, 270)
        width, height = (facts.height, facts.width) if turned else (facts.width, facts.height)
        letters, alpha = _scaled_bitmap(min(width, height), width, height)
        white = _WHITE.get(facts.colour.transfer, 1.0)
        x0 = round(_SAFE_SHARE * width)
        y0 = max(0, height - round(_SAFE_SHARE * height) - letters.shape[0])
        upright: Box = (x0, y0, x0 + letters.shape[1], y0 + letters.shape[0])
        self.box = _to_coded(upright, facts.rotation, width, height)
        quarter_turns = facts.rotation // 90
        grey = np.rot90(letters * white, -quarter_turns)
        self._rgb = np.ascontiguousarray(np.repeat(grey[..., None], 3, axis=2))
        self._mask = np.ascontiguousarray(np.rot90(alpha * _OPACITY, -quarter_turns))
        self._blends: dict[tuple[SampleFormat, ColourFacts], list[Blend]] = {}

    def apply(self, frame: Frame) -> None:
        """Blend the label into `frame`, in place."""
        for blend in self.blends(frame):
            blend.onto(frame.planes)

    def blends(self, like: Frame) -> list[Blend]:
        """What the label does to the planes of frames with this format and colour; worked out once for each."""
        key = (like.format, like.colour)
        if key not in self._blends:
            self._blends[key] = blends_of(like, self.box, self._rgb, self._mask)
        return self._blends[key]


def _scaled_bitmap(short: int, width: int, height: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Letters and opacity (h, w), 0 to 1, in the size for a picture of width × height; tiny pictures get what fits."""
    data = np.frombuffer(resources.files(__package__).joinpath("assets/label.png").read_bytes(), np.uint8)
    bitmap = cv2.imdecode(data, cv2.IMREAD_UNCHANGED)
    if bitmap is None:
        raise InputError("The label's bitmap cannot be read.", where="farm/provenance/assets", do="Install again.")
    scale = max(_FONT_SHARE * short / _EM, 1 / min(bitmap.shape[:2]))
    scale = min(scale, width / bitmap.shape[1], height / bitmap.shape[0])
    size = (max(1, int(bitmap.shape[1] * scale)), max(1, int(bitmap.shape[0] * scale)))
    small = np.asarray(cv2.resize(bitmap, size, interpolation=cv2.INTER_AREA), np.float32) / np.float32(255)
    return small[..., 0], small[..., 3]


def _to_coded(box: Box, rotation: int, width: int, height: int) -> Box:
    """The box of an upright picture (width × height) in coded pixels; a player turns coded pixels counter-clockwise."""
    x0, y0, x1, y1 = box
    if rotation == 90:
        return height - y1, x0, height - y0, x1
    if rotation == 180:
        return width - x1, height - y1, width - x0, height - y0
    if rotation == 270:
        return y0, width - x1, y1, width - x0
    return box
