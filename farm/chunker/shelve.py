"""Segments and their parts of the timeline go into the store beside the cutting that goes on."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

from farm.chunker.cut import CutChunk, PlateCutter
from farm.media.timeline import Timeline
from farm.store.base import ObjectInfo, Store

_BESIDE = 2


class Keys(NamedTuple):
    """Where a chunk's two objects go."""

    segment: str
    timeline: str


class StoredChunk(NamedTuple):
    """A chunk whose segment and part of the timeline are in the store; `part` is that part, `segment` the object."""

    chunk: CutChunk
    keys: Keys
    part: Timeline
    segment: ObjectInfo


def stored_chunks(
    cutter: PlateCutter, store: Store, keys_of: Callable[[int], Keys], *, before: int, after: int
) -> Iterator[StoredChunk]:
    """Each chunk of the plate, in order, once its objects are in the store; segment files are removed.

    The first one is waited for; of the others, two may be on their way while the next one is cut. A chunk's part of the
    timeline has `before` frames in front of it and `after` + 1 behind it. Raises what cutting and storing raise.
    """

    def put(chunk: CutChunk, keys: Keys, part: Timeline) -> StoredChunk:
        store.put_bytes(keys.timeline, part.to_bytes())
        segment = store.put_file(keys.segment, chunk.segment.path)
        chunk.segment.path.unlink()
        return StoredChunk(chunk, keys, part, segment)

    storing: deque[Future[StoredChunk]] = deque()
    beside = 0
    with ThreadPoolExecutor(1, "segment-store") as pool:
        try:
            for chunk in cutter.run():
                low, high = max(0, chunk.range.first - before), min(cutter.known, chunk.range.last + after + 1)
                storing.append(pool.submit(put, chunk, keys_of(chunk.range.index), cutter.part(low, high)))
                while storing and (len(storing) > beside or storing[0].done()):
                    yield storing.popleft().result()
                    beside = _BESIDE
            while storing:
                yield storing.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)
