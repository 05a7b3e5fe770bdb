"""The plate's frames in presentation order: the truth about "which frames"."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray


def _nothing() -> NDArray[np.int64]:
    return np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Timeline:
    """Presentation-order frames of one video stream.

    Attributes
    ----------
    time_base: seconds a tick, exact.
    pts: int64[n], strictly increasing.
    duration: int64[n], ticks that each frame stays on screen (the last one's from its packet, or the median).
    key: bool[n], whether the frame is a key frame.
    packet: int64[n], which packet of the picture stream (counted from 0 in the order of the file) each frame comes
        from; empty in timelines that were not read from a plate.
    concealed: int64[m], indexes of frames that are known not to decode; each repeats the frame before it.
    damaged: int64[k], indexes of frames that decode with faults in them (known only after a full decode).
    decoded: whether the frames were counted by decoding all of them, rather than by their packets.
    """

    time_base: Fraction
    pts: NDArray[np.int64]
    duration: NDArray[np.int64]
    key: NDArray[np.bool_]
    packet: NDArray[np.int64] = field(default_factory=_nothing)
    concealed: NDArray[np.int64] = field(default_factory=_nothing)
    damaged: NDArray[np.int64] = field(default_factory=_nothing)
    decoded: bool = False

    def __len__(self) -> int:
        return len(self.pts)

    def seconds(self, first: int, last: int) -> float:
        """Length on screen of frames [first, last)."""
        return float((self.end_pts(last) - int(self.pts[first])) * self.time_base)

    def end_pts(self, last: int) -> int:
        """The pts at which frame `last` - 1 leaves the screen."""
        return int(self.pts[last]) if last < len(self) else int(self.pts[-1] + self.duration[-1])

    def part(self, low: int, high: int) -> Timeline:
        """A timeline that knows frames [low, high) only, at their own indexes.

        What a chunk needs while the rest of the plate is still being scanned. The frames before `low` are placeholders
        (one tick each, of no packet), so that an index means the same frame in every part.
        """
        frames = slice(low, high)
        return Timeline(
            self.time_base,
            self.pts[frames],
            self.duration[frames],
            self.key[frames],
            self.packet[frames],
            self.concealed[(self.concealed >= low) & (self.concealed < high)] - low,
            self.damaged[(self.damaged >= low) & (self.damaged < high)] - low,
            self.decoded,
        ).placed_at(low)

    def placed_at(self, low: int) -> Timeline:
        """The same frames as numbers `low` and up, behind as many placeholders (see `part`)."""
        before = np.arange(-low, 0, dtype=np.int64)
        return Timeline(
            self.time_base,
            np.concatenate([before + self.pts[0], self.pts]),
            np.concatenate([np.ones(low, np.int64), self.duration]),
            np.concatenate([np.zeros(low, np.bool_), self.key]),
            np.concatenate([before - 1, self.packet]) if len(self.packet) else self.packet,
            self.concealed + low,
            self.damaged + low,
            self.decoded,
        )

    def to_bytes(self) -> bytes:
        """A compact, versioned form (NumPy .npz)."""
        out = io.BytesIO()
        base = np.array([self.time_base.numerator, self.time_base.denominator], np.int64)
        names = ("pts", "duration", "key", "packet", "concealed", "damaged")
        arrays: dict[str, Any] = {name: getattr(self, name) for name in names}
        np.savez_compressed(out, version=np.int64(2), time_base=base, decoded=np.bool_(self.decoded), **arrays)
        return out.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> Timeline:
        with np.load(io.BytesIO(data), allow_pickle=False) as z:
            base = Fraction(int(z["time_base"][0]), int(z["time_base"][1]))
            arrays = {name: z[name] for name in ("pts", "duration", "key", "packet", "concealed", "damaged")}
            return cls(base, decoded=bool(z["decoded"]), **arrays)
