"""Fragments of MP4 that say where the joined picture's samples lie: no packet goes through Python.

Boxes as in ISO/IEC 14496-12: a `moof` with one `traf` (`tfhd`, `tfdt`, `trun`) for samples that lie one behind the
other, found by their place in the whole file; so none needs a `mdat` of its own.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import av
import numpy as np
from numpy.typing import NDArray

_PLACE_IS_GIVEN = 0x000001
_TRUN = 0x000001 | 0x000100 | 0x000200 | 0x000400 | 0x000800
"""Its offset, and for each sample duration, size, flags and composition offset."""
_KEY, _NO_KEY = 0x02000000, 0x01010000
_SAMPLE = np.dtype([("duration", ">u4"), ("size", ">u4"), ("flags", ">u4"), ("late", ">i4")])


class Samples(NamedTuple):
    """Packets in decoding order, in ticks of the joined file; `dts` counts from the film's first, `place` from its
    first byte. int64[n], bool[n]."""

    dts: NDArray[np.int64]
    duration: NDArray[np.int64]
    late: NDArray[np.int64]
    place: NDArray[np.int64]
    size: NDArray[np.int64]
    key: NDArray[np.bool_]

    def part(self, of: slice) -> Samples:
        """Some of them."""
        dts, duration, late = self.dts[of], self.duration[of], self.late[of]
        return Samples(dts, duration, late, self.place[of], self.size[of], self.key[of])


def header(template: Any, ticks: int, *, quicktime: bool) -> bytes:
    """What stands before the first fragment: a file of one picture stream like `template`, with `ticks` a second."""
    out = io.BytesIO()
    options = {"movflags": "+empty_moov+default_base_moof+skip_trailer", "use_editlist": "0", "strict": "experimental"}
    options["video_track_timescale"] = str(ticks)
    with av.open(out, "w", format="mov" if quicktime else "mp4", options=options) as output:
        output.add_stream_from_template(template, opaque=True)
        output.start_encoding()
    return out.getvalue()


def fragments(samples: Samples, numbers: Iterator[int]) -> Iterator[bytes]:
    """The boxes of samples, one for each run of them that lies in one piece, each with the next of `numbers`."""
    ends = samples.place + samples.size
    edges = [0, *(np.flatnonzero(samples.place[1:] != ends[:-1]) + 1).tolist(), len(ends)]
    for low, high in pairwise(edges):
        yield _fragment(next(numbers), samples.part(slice(low, high)))


def free(size: int) -> bytes:
    """The head of a box around `size` bytes that a reader passes over."""
    return struct.pack(">I4sQ", 1, b"free", 16 + size)


def _fragment(number: int, samples: Samples) -> bytes:
    rows = np.zeros(len(samples.dts), _SAMPLE)
    rows["duration"], rows["size"], rows["late"] = samples.duration, samples.size, samples.late
    rows["flags"] = np.where(samples.key, _KEY, _NO_KEY)
    track = _box(b"tfhd", struct.pack(">IIQ", _PLACE_IS_GIVEN, 1, int(samples.place[0])))
    track += _box(b"tfdt", struct.pack(">IQ", 1 << 24, int(samples.dts[0])))
    track += _box(b"trun", struct.pack(">IIi", 1 << 24 | _TRUN, len(rows), 0) + rows.tobytes())
    return _box(b"moof", _box(b"mfhd", struct.pack(">II", 0, number)) + _box(b"traf", track))


def _box(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I4s", 8 + len(body), kind) + body
