"""Frames on their way onto the card: decoded there, or decoded here and uploaded, batch by batch."""

from __future__ import annotations

import ctypes
import queue
from collections import deque
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from farm.faces.cuda.backend import Array, Kernels
from farm.faces.cuda.device import copy_rows, cupy
from farm.faces.cuda.seen import Found
from farm.faces.cuda.surface import Surface
from farm.media import nvdec

_HELD = 4
"""Pictures of the decoder's small pool that one lane keeps while their copies are on the way."""


@dataclass
class FrameBatch:
    """Up to one frame less than `array` (batch + 1, rows, width) holds.

    pts: of each frame. first: of how many frames of its lane it comes after. peek: whether the lane's next frame lies
    behind the last. ready, done: device events after which the frames are there, and swapped. found: their faces.
    """

    array: Array
    first: int = 0
    pts: list[int] = field(default_factory=list)
    peek: bool = False
    ready: Any = None
    done: Any = None
    found: Found | None = None

    def __len__(self) -> int:
        return len(self.pts)


class BatchPool:
    """All the frame memory of a slot. `take` waits until a batch was given back, and says None after `stop`."""

    def __init__(self, kernels: Kernels, surface: Surface, batch: int, count: int) -> None:
        self.surface, self.batch = surface, batch
        shape = (batch + 1, surface.rows, surface.width)
        self._all = [kernels.empty(shape, surface.dtype) for _ in range(count)]
        self._free: queue.SimpleQueue[Array | None] = queue.SimpleQueue()
        self.start()

    def start(self) -> None:
        """Count every batch as free; for a new run, when no lane of the last one is left."""
        self._free = queue.SimpleQueue()
        for array in self._all:
            self._free.put(array)

    def stop(self) -> None:
        """Let every lane that waits, or will wait, come to its end."""
        self._free.put(None)

    def take(self) -> FrameBatch | None:
        array = self._free.get()
        if array is None:
            self._free.put(None)
            return None
        return FrameBatch(array)

    def give_back(self, batch: FrameBatch) -> None:
        self._free.put(batch.array)


def lane(
    path: Path, decoder: str, pool: BatchPool, *, first: int | None = None, last: int | None = None
) -> Iterator[FrameBatch]:
    """Batches of the frames with pts in [first, last), in order.

    Several lanes on parts that begin at key frames use several of the card's decoders.
    """
    feed = _HardwareFeed(pool.surface) if decoder == nvdec.NVDEC else _HostFeed(pool)
    batch = pool.take()
    if batch is None:
        return
    # Closed by name: a decoder that waits for the collector keeps its surfaces on the card.
    with closing(nvdec.pictures(path, decoder, start=first)) as pictures:
        try:
            yield from _batches(pictures, feed, pool, batch, first, last)
        finally:
            feed.close()


def _batches(
    pictures: Iterator[Any], feed: _Feed, pool: BatchPool, batch: FrameBatch, first: int | None, last: int | None
) -> Iterator[FrameBatch]:
    for picture in pictures:
        pts = picture.pts
        if pts is None or (first is not None and pts < first):
            continue
        ends = last is not None and pts >= last
        if ends and not len(batch):
            break
        if ends or len(batch) == pool.batch:
            feed.put(picture, batch.array, len(batch))
            batch.peek = True
            batch.ready = feed.mark()
            yield batch
            taken = None if ends else pool.take()
            if taken is None:
                return
            taken.first = batch.first + len(batch)
            batch = taken
        feed.put(picture, batch.array, len(batch))
        batch.pts.append(pts)
    if len(batch):
        batch.ready = feed.mark()
        yield batch
    else:
        pool.give_back(batch)


class _Feed(Protocol):
    def put(self, picture: Any, array: Array, place: int) -> None: ...

    def mark(self) -> Any:
        """A device event after which all that was put is there."""
        ...


class _HardwareFeed:
    """Copies decoded surfaces into batches, on the stream on which FFmpeg works, so that they come in order."""

    def __init__(self, surface: Surface) -> None:
        self._cp = cupy()
        self._surface = surface
        self._stream = self._cp.cuda.Stream.null
        self._held: deque[tuple[Any, Any]] = deque()
        self._events = [self._cp.cuda.Event(block=True, disable_timing=True) for _ in range(_HELD + 1)]

    def put(self, picture: Any, array: Array, place: int) -> None:
        if len(self._held) == _HELD:
            _, copied = self._held.popleft()
            copied.synchronize()
            self._events.append(copied)
        target, width = array[place], self._surface.width * array.itemsize
        height = self._surface.height
        luma, chroma = (self._cp.from_dlpack(plane) for plane in nvdec.device_planes(picture))
        copy_rows(target.data.ptr, width, luma, height, self._stream)
        copy_rows(target.data.ptr + height * width, width, chroma, height // 2, self._stream)
        copied = self._events.pop()
        copied.record(self._stream)
        self._held.append((picture, copied))

    def mark(self) -> Any:
        event = self._cp.cuda.Event(block=True, disable_timing=True)
        event.record(self._stream)
        return event

    def close(self) -> None:
        while self._held:
            self._held.popleft()[1].synchronize()


class _HostFeed:
    """Uploads pictures of the software decoder from pinned memory."""

    def __init__(self, pool: BatchPool) -> None:
        self._cp = cupy()
        self._stream = self._cp.cuda.Stream(non_blocking=True)
        surface = pool.surface
        self._shape, self._dtype = (surface.rows, surface.width), np.dtype(surface.dtype)
        size = surface.rows * surface.width * self._dtype.itemsize
        self._turns = deque(
            (self._cp.cuda.alloc_pinned_memory(size), self._cp.cuda.Event(block=True, disable_timing=True))
            for _ in range(_HELD)
        )

    def put(self, picture: Any, array: Array, place: int) -> None:
        pinned, copied = self._turns[0]
        self._turns.rotate(-1)
        copied.synchronize()
        host = np.frombuffer(pinned, self._dtype, self._shape[0] * self._shape[1]).reshape(self._shape)
        split = self._shape[0] * 2 // 3
        for plane, rows in zip(picture.planes, (host[:split], host[split:]), strict=True):
            samples = np.frombuffer(plane, np.uint8).reshape(plane.height, plane.line_size)
            rows.view(np.uint8)[...] = samples[:, : rows.shape[1] * self._dtype.itemsize]
        target = array[place]
        target.data.copy_from_host_async(ctypes.c_void_p(pinned.ptr), target.nbytes, self._stream)
        copied.record(self._stream)

    def mark(self) -> Any:
        event = self._cp.cuda.Event(block=True, disable_timing=True)
        event.record(self._stream)
        return event

    def close(self) -> None:
        self._stream.synchronize()
