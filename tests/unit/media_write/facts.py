"""Plate facts for tests, without a plate."""

from __future__ import annotations

import base64
import struct
from fractions import Fraction
from typing import Any

from farm.media.facts import ColourFacts, PlateFacts, StreamFacts, VideoFacts

BT709 = ColourFacts(primaries="bt709", transfer="bt709", matrix="bt709", range="tv", chroma_location="left")

# P3 primaries, D65, 0.0001 to 1000 cd/m², as FFmpeg's AVMasteringDisplayMetadata holds them.
_P3 = [(34000, 16000), (13250, 34500), (7500, 3000), (15635, 16450)]
MASTERING = base64.b64encode(
    struct.pack("=20i2i", *[n for x, y in _P3 for n in (x, 50000, y, 50000)], 1, 10000, 10000000, 10000, 1, 1)
).decode()
LIGHT = base64.b64encode(struct.pack("=2I", 1000, 400)).decode()


def plate(*streams: StreamFacts, container: str = "mov,mp4,m4a,3gp,3g2,mj2", **video: Any) -> PlateFacts:
    given = {
        "stream_index": 0,
        "codec": "h264",
        "width": 1920,
        "height": 1080,
        "sample_format": "yuv420p",
        "bit_depth": 8,
        "time_base": Fraction(1, 24000),
        "average_rate": Fraction(24000, 1001),
        "colour": BT709,
    }
    return PlateFacts(container=container, size=1, video=VideoFacts(**(given | video)), streams=streams)


def stream(index: int, kind: str, codec: str, **more: Any) -> StreamFacts:
    return StreamFacts(index=index, kind=kind, codec=codec, **more)
