"""Where each packet lies in a chunk file that is MP4 or QuickTime: read from its tables, without its packets."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from farm.media.structure import composition_offsets
from farm.media.timeline import Timeline
from farm.media.writer import ChunkFacts
from farm.words import counted


class PacketTable(NamedTuple):
    """A chunk's packets in decoding order: the frame (of the timeline) that each one is, its bytes in the file, and
    whether it is a key frame. int64[n], bool[n]."""

    frame: NDArray[np.int64]
    place: NDArray[np.int64]
    size: NDArray[np.int64]
    key: NDArray[np.bool_]


def packet_table(path: Path, stream: Any, facts: ChunkFacts, timeline: Timeline) -> PacketTable | str:
    """The table of an open chunk file, or what is wrong with it, in words.

    The file's own clock starts at the chunk's first frame, whatever the tick it is given there.
    """
    entries: Sequence[Any] = list(stream.index_entries)
    if not entries:
        return "It holds no packets."
    with path.open("rb") as file:
        late = composition_offsets(file, path.stat().st_size)
    dts = np.array([entry.timestamp for entry in entries], np.int64)
    if late is not None and len(late) != len(dts):
        return f"Its tables name {counted(len(dts), 'packet')} and {counted(len(late), 'time')}."
    shown = dts + (late if late is not None else 0)
    ticks = Fraction(stream.time_base) / timeline.time_base
    scaled = (shown - shown.min()) * ticks.numerator
    pts = facts.first_pts + scaled // ticks.denominator
    due = timeline.pts[facts.first : facts.last]
    within = np.minimum(np.searchsorted(due, pts), len(due) - 1)
    if np.any(strange := (due[within] != pts) | (scaled % ticks.denominator != 0)):
        return f"A packet has pts {int(pts[np.argmax(strange)])}, which is no frame of the plan."
    seen = np.bincount(within, minlength=len(due))
    if np.any(seen > 1):
        return f"The packet with pts {int(due[np.argmax(seen > 1)])} comes twice."
    if np.any(seen == 0):
        return f"{counted(int((seen == 0).sum()), 'frame')} missing, the first is {facts.first + int(np.argmin(seen))}."
    if not entries[0].is_keyframe:
        return f"The first packet (pts {int(pts[0])}) is no key frame."
    return PacketTable(
        facts.first + within.astype(np.int64),
        np.array([entry.pos for entry in entries], np.int64),
        np.array([entry.size for entry in entries], np.int64),
        np.array([entry.is_keyframe for entry in entries], np.bool_),
    )
