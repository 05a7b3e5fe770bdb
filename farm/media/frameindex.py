"""Frames and the packets they come from: which packets a chunk needs, and where its decoding may start."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from farm.errors import InputError
from farm.media.timeline import Timeline
from farm.words import counted

_REORDER_WINDOW = 64


@dataclass(frozen=True, slots=True)
class Want:
    """What a chunk needs.

    Frames [first, last) are its own, [low, high) with context. `begin` is the lowest ordinal among their packets;
    `end` the last packet to read, None for all that is left.
    """

    first: int
    last: int
    low: int
    high: int
    begin: int
    end: int | None


class FrameIndex:
    """Frame ↔ packet, growing as frames are found. `complete` says that no frame will be added.

    It may begin at frame `base` of the timeline, when a part is all that is needed; frames keep their numbers.
    """

    def __init__(self, base: int = 0) -> None:
        self._base = base
        self._ordinals: list[int] = []
        self._pts: list[int] = []
        self._frame_of: dict[int, int] = {}
        self._lost: frozenset[int] = frozenset()
        self._damaged: frozenset[int] = frozenset()
        self.complete = False

    @classmethod
    def of(cls, timeline: Timeline) -> FrameIndex:
        """Raises InputError for a timeline that does not say which packets its frames come from."""
        if len(timeline.packet) != len(timeline):
            raise InputError("The timeline does not say which packets its frames come from.", where="the timeline")
        index = cls()
        index.extend(zip(timeline.packet.tolist(), timeline.pts.tolist(), strict=True))
        index.know_damage(timeline)
        index.complete = True
        return index

    def know_damage(self, timeline: Timeline) -> None:
        """Take over which frames do not decode, or not without fault."""
        self._lost = frozenset(timeline.concealed.tolist())
        self._damaged = self._lost | frozenset(timeline.damaged.tolist())

    def extend(self, frames: Iterable[tuple[int, int]]) -> None:
        """Add frames (ordinal of the packet, pts) in presentation order."""
        for ordinal, pts in frames:
            self._frame_of[ordinal] = len(self)
            self._ordinals.append(ordinal)
            self._pts.append(pts)

    def __len__(self) -> int:
        """One more than the last known frame's number."""
        return self._base + len(self._ordinals)

    def part(self, low: int, high: int) -> list[tuple[int, int]]:
        """(ordinal, pts) of frames [low, high)."""
        places = slice(low - self._base, high - self._base)
        return list(zip(self._ordinals[places], self._pts[places], strict=True))

    def frame_of(self, ordinal: int) -> int | None:
        """The index of the frame that packet `ordinal` gives, None where it gives none."""
        return self._frame_of.get(ordinal)

    def pts_of(self, frame: int) -> int:
        return self._pts[frame - self._base]

    def is_known_lost(self, frame: int) -> bool:
        """Whether the plan already says that this frame does not decode."""
        return frame in self._lost

    @property
    def is_damaged(self) -> bool:
        """Whether any frame is known not to decode without fault."""
        return bool(self._damaged)

    def is_damaged_within(self, start: int, end: int | None) -> bool:
        """Whether a frame that is known not to decode without fault comes from one of the packets start..end."""
        ordinals = (self._ordinals[f - self._base] for f in self._damaged if f < len(self))
        return any(start <= ordinal and (end is None or ordinal <= end) for ordinal in ordinals)

    def is_ready_for(self, last: int, after: int) -> bool:
        """Whether enough frames are known for a want that ends at `last` with `after` frames of context."""
        return self.complete or len(self) >= last + after + _REORDER_WINDOW

    def want(self, first: int, last: int, before: int, after: int) -> Want:
        """What frames [first, last) with context need. Raises InputError outside the timeline."""
        if not self._base <= first < last <= len(self):
            raise InputError(
                f"Frames {first} to {last} are not in the timeline of {counted(len(self), 'frame')}.", where="the chunk"
            )
        low, high = max(self._base, first - before), min(len(self), last + after)
        ordinals = [ordinal for ordinal, _ in self.part(low, high)]
        greatest = max(ordinals)
        # Packets that show nothing of their own (second fields, hidden frames) belong to the picture before them.
        following = [o for o, _ in self.part(high, high + _REORDER_WINDOW) if o > greatest]
        return Want(first, last, low, high, min(ordinals), min(following) - 1 if following else None)

    def serves(self, want: Want, ordinal: int, pts: int | None) -> bool:
        """Whether decoding that starts at the key packet `ordinal` gives all of `want`'s frames exactly.

        It must come no later than the first packet needed, and be shown no later than the first frame wanted: what is
        shown before it may need pictures from before it.
        """
        if ordinal > want.begin:
            return False
        frame = self._frame_of.get(ordinal)
        if frame is not None:
            return frame <= want.low
        return pts is not None and pts <= self.pts_of(want.low)
