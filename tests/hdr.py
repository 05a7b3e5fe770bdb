"""Pictures graded as HDR: diffuse white where ITU-R BT.2408 puts it, BT.2020 primaries (ITU-R BT.2087)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from farm.media.colour import paste_rgb
from farm.media.facts import ColourFacts
from farm.media.frame import Frame, SampleFormat

PQ = ColourFacts(primaries="bt2020", transfer="smpte2084", matrix="bt2020nc", range="tv", chroma_location="topleft")
HLG = PQ.model_copy(update={"transfer": "arib-std-b67"})
_TO_2020 = np.array([[0.6274, 0.3293, 0.0433], [0.0691, 0.9195, 0.0114], [0.0164, 0.0880, 0.8956]], np.float32)
TEN = SampleFormat("yuv420p10le", "yuv", 10, 1, 1, False)


def graded(picture: NDArray[np.uint8], colour: ColourFacts) -> Frame:
    """A BGR picture (h, w, 3), even sides, as a 10-bit frame in PQ or HLG."""
    height, width = picture.shape[:2]
    light = (picture[:, :, ::-1].astype(np.float32) / 255) ** 2.2 @ _TO_2020.T
    if colour.transfer == "smpte2084":
        y = (light * 203 / 10000) ** (2610 / 16384)
        signal = ((3424 / 4096 + 2413 / 128 * y) / (1 + 2392 / 128 * y)) ** (2523 / 32)
    else:
        scene = light * 0.26496256
        bright = 0.17883277 * np.log(np.maximum(12 * scene - 0.28466892, 1e-6)) + 0.55991073
        signal = np.where(scene <= 1 / 12, np.sqrt(3 * scene), bright)
    chroma = (np.full((height // 2, width // 2), 512, np.uint16) for _ in range(2))
    frame = Frame((np.zeros((height, width), np.uint16), *chroma), TEN, colour, pts=0, index=0)
    paste_rgb(frame, (0, 0, width, height), signal.astype(np.float32), np.ones((height, width), np.float32))
    return frame
