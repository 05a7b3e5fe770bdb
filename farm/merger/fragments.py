"""The joined picture as fragmented MP4 whose samples are pieces of the chunk files: no packet goes through Python.

Boxes as in ISO/IEC 14496-12: `moof` with one `traf` (`tfhd`, `tfdt`, `trun`), then `mdat`. The bytes of the samples go
from file to pipe inside the system where it can do that.
"""

from __future__ import annotations

import io
import os
import struct
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, NamedTuple

import av
import numpy as np
from numpy.typing import NDArray

from farm.errors import FarmError

_FRAGMENT_BYTES = 4_000_000
_POURED = 1 << 20
_BASE_IS_MOOF = 0x020000
_TRUN = 0x000001 | 0x000100 | 0x000200 | 0x000400 | 0x000800
"""Its offset, and for each sample duration, size, flags and composition offset."""
_KEY, _NO_KEY = 0x02000000, 0x01010000
_SAMPLE = np.dtype([("duration", ">u4"), ("size", ">u4"), ("flags", ">u4"), ("late", ">i4")])


class Samples(NamedTuple):
    """Packets in decoding order, in ticks of the joined file; `dts` counts from the film's first. int64[n], bool[n]."""

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


class FragmentWriter:
    """Writes fragments to a pipe. OSError (BrokenPipeError where the reader has gone)."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe
        self._number = 0

    def write(self, path: Path, samples: Samples) -> None:
        """The samples of one chunk file, in fragments that bound what the reader must hold."""
        with path.open("rb", buffering=0) as file:
            for part in _parts(samples.size):
                self._number += 1
                chosen = samples.part(part)
                self._pipe.write(_fragment(self._number, chosen))
                self._pipe.flush()
                for begin, end in _runs(chosen):
                    _pour(file.fileno(), begin, end - begin, self._pipe)


def _parts(size: NDArray[np.int64]) -> Iterator[slice]:
    group = np.cumsum(size) // _FRAGMENT_BYTES
    edges = [0, *(np.flatnonzero(np.diff(group)) + 1).tolist(), len(size)]
    return (slice(low, high) for low, high in pairwise(edges))


def _runs(samples: Samples) -> Iterator[tuple[int, int]]:
    """The bytes [begin, end) of the file in which the samples lie, one behind the other."""
    ends = samples.place + samples.size
    edges = [0, *(np.flatnonzero(samples.place[1:] != ends[:-1]) + 1).tolist(), len(ends)]
    for low, high in pairwise(edges):
        yield int(samples.place[low]), int(ends[high - 1])


def _fragment(number: int, samples: Samples) -> bytes:
    """The boxes before a fragment's bytes, the head of `mdat` included."""
    rows = np.zeros(len(samples.dts), _SAMPLE)
    rows["duration"], rows["size"], rows["late"] = samples.duration, samples.size, samples.late
    rows["flags"] = np.where(samples.key, _KEY, _NO_KEY)
    heads = _box(b"tfhd", struct.pack(">II", _BASE_IS_MOOF, 1))
    heads += _box(b"tfdt", struct.pack(">IQ", 1 << 24, int(samples.dts[0])))
    run = struct.pack(">III", 1 << 24 | _TRUN, len(rows), 0) + rows.tobytes()
    moof = _moof(number, heads + _box(b"trun", run))
    # The samples begin behind `moof` and the head of `mdat`.
    run = struct.pack(">III", 1 << 24 | _TRUN, len(rows), len(moof) + 8) + rows.tobytes()
    return _moof(number, heads + _box(b"trun", run)) + struct.pack(">I4s", 8 + int(samples.size.sum()), b"mdat")


def _moof(number: int, track: bytes) -> bytes:
    return _box(b"moof", _box(b"mfhd", struct.pack(">II", 0, number)) + _box(b"traf", track))


def _box(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I4s", 8 + len(body), kind) + body


def _pour(source: int, begin: int, count: int, pipe: IO[bytes]) -> None:
    """Bytes of a file into the pipe."""
    splice = getattr(os, "splice", None)
    while count:
        if splice is not None:
            moved = splice(source, pipe.fileno(), min(count, _POURED), offset_src=begin)
        else:
            moved = pipe.write(os.pread(source, min(count, _POURED), begin))
        if not moved:
            raise FarmError(
                "A chunk's file became shorter while it was read.",
                where="merge",
                do="Check the scratch disk; merge again.",
            )
        begin, count = begin + moved, count - moved
