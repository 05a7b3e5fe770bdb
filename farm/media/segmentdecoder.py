"""Whether a segment is decoded on the card: only where its first pictures come out as the processor makes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np
from av.codec.hwaccel import hwdevices_available
from av.error import FFmpegError

from farm.media.decoder import DecodeLog, decode_packets
from farm.media.facts import PlateFacts
from farm.media.frame import Plane
from farm.media.nvdec import CPU, NVDEC, DecoderChoice, card_decoder
from farm.media.planes import planar_format, to_planes
from farm.media.segmentfile import SegmentFileReader
from farm.media.timeline import Timeline

_FORMATS = ("yuv420p", "yuv420p10le")
_LOOKED_AT = 2

Look = Callable[[Path, bool], list[tuple[Plane, ...]]]
"""The first pictures of a segment's decoder, from the card (True) or the processor."""


def segment_decoder(
    path: Path,
    facts: PlateFacts,
    timeline: Timeline,
    *,
    devices: Callable[[], list[str]] = hwdevices_available,
    look: Look | None = None,
) -> DecoderChoice:
    """NVDEC where it is proved for this segment, else the processor and why; for the attempt's record."""
    if planar_format(facts.video.sample_format).name not in _FORMATS:
        return DecoderChoice(CPU, f"the card's decoder has no form for {facts.video.sample_format}")
    if len(timeline.concealed) or len(timeline.damaged):
        return DecoderChoice(CPU, "the plate is damaged, and what becomes of that is the processor's decoder's")
    with SegmentFileReader(path) as segment:
        if segment.header.coding == "lossless":
            return DecoderChoice(CPU, "the segment holds frames coded anew without loss")
    if "cuda" not in devices():
        return DecoderChoice(CPU, "FFmpeg was built without CUDA")
    look = look or _first_pictures
    try:
        card, told = look(path, True), look(path, False)
    except (FFmpegError, RuntimeError, NotImplementedError, ValueError) as error:
        return DecoderChoice(CPU, f"NVDEC gave no picture: {(str(error).splitlines() or [repr(error)])[0][:200]}")
    pairs = [(a, b) for one, other in zip(card, told, strict=False) for a, b in zip(one, other, strict=False)]
    if len(card) != len(told) or not pairs or not all(np.array_equal(a, b) for a, b in pairs):
        return DecoderChoice(CPU, "NVDEC's first pictures are not those of the processor's decoder")
    return DecoderChoice(NVDEC)


def _first_pictures(path: Path, on_card: bool) -> list[tuple[Plane, ...]]:
    with SegmentFileReader(path) as segment:
        hardware = card_decoder(owned=False) if on_card else None
        packets: Iterator[object] = (packet.to_av() for packet in segment)
        decoded = decode_packets(segment.header.setup, packets, DecodeLog(), threads=1, hardware=hardware)  # type: ignore[arg-type]
        return [to_planes(item.picture)[0] for item in islice(decoded, _LOOKED_AT)]
