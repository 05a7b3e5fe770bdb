"""Chunk files as FFmpeg reads them as one film: all of them end to end, and an index of their samples behind.

The index is fragmented MP4 with the plate's exact clock, written from the chunks' tables, which are checked against the
timeline all at once. The bytes stay where they are: FFmpeg's `concatf` protocol reads the files of a list as one, in
which a box that a reader passes over lies around the chunks.
"""

from __future__ import annotations

import resource
import shutil
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import IO

import numpy as np

from farm.media.timeline import Timeline
from farm.merger.fragments import Samples, fragments, free, header
from farm.merger.join import QUICKTIME_ONLY, ChunkFile, Clock, check_headers, damaged, open_chunk
from farm.merger.table import PacketTable, packet_table

_OTHER_FILES = 64
"""Files that FFmpeg has open beside the chunks, at most."""
_MOST_FILES = 4096
_COPIED = 1 << 20


def write_reel(chunks: Sequence[ChunkFile], timeline: Timeline, folder: Path) -> Path:
    """The list of files that are one film, in `folder`, which must stay until it was read.

    Ticks there are 1/denominator of the timeline's time base, counted from the first packet's dts: fragments start at
    zero, so the muxer must add `first_dts` back. FarmError names the chunk that is not as planned, and where.
    """
    head, index, reel = folder / "head", folder / "index", folder / "reel"
    head.write_bytes(free(sum(chunk.facts.size for chunk in chunks)))
    with index.open("wb") as out:
        _write_index(chunks, timeline, head.stat().st_size, out)
    files = [head, *_few([chunk.path for chunk in chunks], folder, _files_at_once()), index]
    reel.write_text("\n".join(map(_quoted, files)))
    return reel


def _write_index(chunks: Sequence[ChunkFile], timeline: Timeline, begin: int, out: IO[bytes]) -> None:
    """The tables of chunks that lie end to end from byte `begin` on."""
    base = timeline.time_base
    clock, numbers, number = Clock(timeline, max(chunk.facts.reorder for chunk in chunks)), count(1), 0
    with open_chunk(chunks[0], header_only=False) as (_, template):
        quicktime = template.codec_context.codec.canonical_name in QUICKTIME_ONLY
        out.write(header(template, base.denominator, quicktime=quicktime))
    for chunk in chunks:
        table = _table(chunk, timeline)
        dts = clock.all_dts(number, number + len(table.frame) + 1)
        pts = timeline.pts[table.frame]
        if np.any(early := pts < dts[:-1]):
            place = int(np.argmax(early))
            raise damaged(
                chunk.facts, f"The packet of frame {int(table.frame[place])} (pts {int(pts[place])}) comes too late."
            )
        number += len(table.frame)
        lasting = np.diff(dts)
        if number == len(timeline):
            lasting[-1] = timeline.duration[table.frame[-1]]
        since, due, late = (ticks * base.numerator for ticks in (dts[:-1] - clock.dts(0), lasting, pts - dts[:-1]))
        out.writelines(fragments(Samples(since, due, late, begin + table.place, table.size, table.key), numbers))
        begin += chunk.facts.size


def _table(chunk: ChunkFile, timeline: Timeline) -> PacketTable:
    with open_chunk(chunk) as (_, stream):
        check_headers(chunk.facts, stream)
        table = packet_table(chunk.path, stream, chunk.facts, timeline)
    if isinstance(table, str):
        raise damaged(chunk.facts, table)
    if np.any(table.place + table.size > chunk.facts.size):
        raise damaged(chunk.facts, "Its tables name bytes that lie behind its end.")
    return table


def _files_at_once() -> int:
    """How many chunk files FFmpeg, which keeps all files of a list open, may have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(1, _MOST_FILES if soft == resource.RLIM_INFINITY else min(_MOST_FILES, soft - _OTHER_FILES))


def _few(paths: Sequence[Path], folder: Path, most: int) -> Iterator[Path]:
    """At most `most` files with the same bytes in the same order; where there are more, several are copied into one."""
    together = -(-len(paths) // most)
    if together == 1:
        yield from paths
        return
    for first in range(0, len(paths), together):
        target = folder / f"chunks-{first}"
        with target.open("wb") as out:
            for path in paths[first : first + together]:
                with path.open("rb") as source:
                    shutil.copyfileobj(source, out, _COPIED)
        yield target


def _quoted(path: Path) -> str:
    """A file as a line of FFmpeg's lists."""
    return "'file:" + str(path.absolute()).replace("'", "'\\''") + "'"
