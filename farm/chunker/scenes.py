"""Where scenes begin, found on small upright pictures while frames stream by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from scenedetect import FrameTimecode
from scenedetect.detectors import ContentDetector

from farm.media.colour import upright_preview
from farm.media.facts import PlateFacts
from farm.media.frame import Frame

_SIDE = 160
_RATE = 25.0
"""The detector counts in frames; its time codes need some rate, and any will do."""


def find_scene_cuts(
    frames: Iterable[Frame], facts: PlateFacts, *, threshold: float = 27.0, shortest: int = 12
) -> Iterator[int]:
    """Indexes of the frames that begin a scene, each as soon as it is certain, in order.

    `threshold` is how much the picture must change in hue, saturation and lightness (0..255, mean); cuts closer than
    `shortest` frames to the one before are left out. Frame indexes are the timeline's own, so detector and chunker
    cannot count differently.
    """
    detector = ContentDetector(threshold=threshold, min_scene_len=shortest)
    for frame in frames:
        picture, _ = upright_preview(frame, facts, _SIDE)
        yield from (cut.frame_num for cut in detector.process_frame(FrameTimecode(frame.index, _RATE), picture))
    yield from (cut.frame_num for cut in detector.post_process(FrameTimecode(0, _RATE)))
