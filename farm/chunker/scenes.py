"""Where scenes begin, among the frames at which a chunk may end.

What a cut costs an encoder shows in its packets: a key frame out of turn, a frame several times as large as those
around it, another size from there on. The few places that look so are decoded, and PySceneDetect says what is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from scenedetect import FrameTimecode
from scenedetect.detectors import ContentDetector

from farm.errors import InputError
from farm.media.facts import PlateFacts
from farm.media.frame import Frame
from farm.media.fulldecode import ScannedFrame
from farm.media.peek import Peeker
from farm.media.preview import upright_preview

_SIDE = 160
_RATE = 25.0
"""The detector counts in frames; its time codes need some rate, and any will do."""
_AROUND = 24
"""Frames before and after one that its size is compared with."""
_FAR = 1200
"""Frames before the first in question whose key frames say what their usual distance is."""
_LARGE = 2.0
_STEP, _FINE_STEP = 0.5, 0.15
"""By how much the logarithm of the sizes must change."""
_BESIDE = 4
"""Frames: an encoder that reorders pays for a cut some frames beside it."""
_MOST_LOOKS = 12
_ALIKE = 12.0
"""A change from one key frame to another that is too small for a cut between them (a cut is 27 from frame to frame)."""
_KEPT = 8
"""Key frames that are kept for the next question."""
_MOST_PIXELS = 300_000_000
"""Decoded for one boundary at most: half a second of two cores' time, whatever the size of the picture."""


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


def likely_cuts(frames: Sequence[ScannedFrame], low: int, high: int) -> list[int]:
    """Frames in [low, high) at or beside which a scene may begin, by their packets.

    `frames` are those known so far, from the plate's first on. Key frames out of turn come first, then where sizes
    change; within each kind those in the middle. Of several close together there is one.
    """
    begin, end = max(0, low - _FAR), min(len(frames), high + _AROUND)
    key = np.array([frame.key for frame in frames[begin:end]], np.bool_)
    size = np.array([frame.size for frame in frames[begin:end]], np.float64)
    middle = (low + high) / 2 - begin
    kinds = (_keys_out_of_turn(np.flatnonzero(key)), _standing_out(size, key), _steps(size, key))
    found: list[int] = []
    for number in (begin + n for kind in kinds for n in sorted(kind, key=lambda n: abs(n - middle))):
        if max(low, 1) <= number < high and all(abs(number - other) > _BESIDE for other in found):
            found.append(number)
    return found


def _keys_out_of_turn(keys: NDArray[np.int64]) -> list[int]:
    """Key frames that do not come at the stream's usual distance after the one before."""
    gaps = np.diff(keys)
    if len(gaps) < 2:
        return [int(n) for n in keys[1:]]
    return [int(n) for n in keys[1:][gaps != np.bincount(gaps).argmax()]]


def _standing_out(size: NDArray[np.float64], key: NDArray[np.bool_]) -> list[int]:
    """Frames between key frames that are large against the larger ones before, or those after, them."""
    places = np.flatnonzero(~key)
    if len(places) <= _AROUND:
        return []
    usual = np.percentile(sliding_window_view(size[places], _AROUND), 80, axis=1)
    before = np.concatenate([np.full(_AROUND, usual[0]), usual[:-1]])
    after = np.concatenate([usual[1:], np.full(_AROUND, usual[-1])])
    return [int(n) for n in places[size[places] > _LARGE * np.maximum(np.minimum(before, after), 1)]]


def _steps(size: NDArray[np.float64], key: NDArray[np.bool_]) -> list[int]:
    """Frames from which on packets are of another size for good; where all are key frames that shows most finely."""
    if len(size) <= 2 * _AROUND:
        return []
    level = np.log(np.maximum(np.median(sliding_window_view(size, _AROUND), axis=1), 1))
    step = np.abs(level[_AROUND:] - level[:-_AROUND])
    peaks = sliding_window_view(np.pad(step, _BESIDE, mode="edge"), 2 * _BESIDE + 1).max(axis=1)
    places = np.flatnonzero((step > (_FINE_STEP if key.all() else _STEP)) & (step == peaks)) + _AROUND
    if not key.all():
        return [int(n) for n in places]
    # Medians smooth the place away; among equals it is where one frame differs most from the one before.
    change, reach = np.abs(np.diff(size, prepend=size[0])), _AROUND // 2
    return [int(n - reach + np.argmax(change[n - reach : n + reach])) for n in places]


class SceneFinder:
    """Finds scene cuts of a plate whose frames (`frames`, which grows) are being scanned.

    A fixed number of pixels is decoded for each question, so that the first chunk of a large picture is not late; a
    cut that it takes longer to be sure of is not found.
    """

    def __init__(self, path: Path, facts: PlateFacts, frames: Sequence[ScannedFrame]) -> None:
        self._facts, self._frames = facts, frames
        self._peeker = Peeker(path, facts, rough=True)
        self._keys: dict[int, Frame | None] = {}

    def within(self, low: int, high: int) -> list[int]:
        """A frame in [low, high) that begins a scene, if one is found: the first place that proves right is enough."""
        budget = _MOST_PIXELS // max(1, self._facts.video.width * self._facts.video.height)
        for number in likely_cuts(self._frames, low, high)[:_MOST_LOOKS]:
            first, last = max(0, number - _BESIDE - 1), min(len(self._frames) - 1, number + _BESIDE)
            start = self._key_at(first)
            cost = last - start + 1
            if cost > budget or self._looks_the_same(start, last):
                continue
            budget -= cost
            if cuts := [cut for cut in self._cuts(start, first, last) if low <= cut < high]:
                return cuts[:1]
        return []

    def close(self) -> None:
        self._peeker.close()

    def _looks_the_same(self, start: int, last: int) -> bool:
        """Whether the key frame `start` and the first one behind `last` show the same: then nothing new begins there.

        Two frames are decoded to spare all that lie between.
        """
        behind = next((n for n in range(last + 1, min(len(self._frames), last + _FAR)) if self._frames[n].key), None)
        before, after = self._key(start), self._key(behind) if behind is not None else None
        if before is None or after is None:
            return False
        return not list(find_scene_cuts((before, after), self._facts, threshold=_ALIKE, shortest=1))

    def _key(self, number: int) -> Frame | None:
        if number not in self._keys:
            if len(self._keys) >= _KEPT:
                del self._keys[next(iter(self._keys))]
            self._keys[number] = self._peeker.key(self._frames[number].pts, number)
        return self._keys[number]

    def _key_at(self, number: int) -> int:
        """The last key frame up to `number`."""
        return next((n for n in range(number, 0, -1) if self._frames[n].key), 0)

    def _cuts(self, start: int, first: int, last: int) -> list[int]:
        """Scene cuts after frame `first`, up to `last`, decoded from the key frame `start` on."""
        wanted = {self._frames[n].pts: n for n in range(first, last + 1)}
        try:
            frames = self._peeker.look(self._frames[start].pts, wanted, most=2 * (last - start + 1))
            return list(find_scene_cuts(frames, self._facts, shortest=1))
        except InputError:
            # Whether the plate can be read is for those to say who need all of it.
            return []
