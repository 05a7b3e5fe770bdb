"""CuPy: the kernels of this folder on one stream of the visible card.

CuPy is imported with the first object, never at import: the process that forks the slots must not touch the card.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farm.faces.cuda import lab, usable, yunet
from farm.faces.cuda.backend import Array, Later
from farm.faces.cuda.compiled import compiled, cupy, surface_kernel, type_name
from farm.faces.cuda.crop import CropPlan, Packing
from farm.faces.cuda.overlay import Overlay
from farm.faces.cuda.paste import PastePlan
from farm.faces.cuda.pinned import PinnedPool
from farm.faces.cuda.staging import Staging, sleeping_event
from farm.faces.cuda.surface import Floats, Surface
from farm.faces.lab import SPACE
from farm.media import nvdec

_THREADS = 256
_TAKEN = 4
"""Pictures of a decoder's small pool that are kept while their copies are on the way."""


class CudaKernels:
    """The kernels on a stream of their own; `urgent` streams go first where work is waiting on several.

    Buffers are made once, at the first use of each size. `frames` arrays are (count, rows, width), C-contiguous.
    """

    def __init__(self, *, urgent: bool = False) -> None:
        self._cp = cupy()
        self.handle = self._cp.cuda.Stream(non_blocking=True, priority=-1 if urgent else 0)
        self.stream: int | None = self.handle.ptr
        self._tables: dict[bytes, Array] = {}
        self._scratch: dict[tuple[Any, ...], Array] = {}
        self._most: dict[tuple[int, ...], int] = {}
        self._pinned = PinnedPool(self._cp.cuda.alloc_pinned_memory)
        self._event = sleeping_event()
        self._events: deque[Any] = deque()
        self._taken: deque[tuple[Any, Any]] = deque()

    @cached_property
    def _staging(self) -> Staging:
        return Staging(self.handle)

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Array:
        with self.handle:
            made = self._cp.zeros(shape, dtype)
        # Others may write to it before this stream comes to clear it.
        self.wait()
        return made

    def upload(self, host: NDArray[Any], into: Array) -> None:
        if host.nbytes > self._staging.size:
            self._upload_large(host, into)
            return
        [staged] = self._staging.put(np.ascontiguousarray(host))
        into[: len(host)].data.copy_from_device_async(staged.data, staged.nbytes, self.handle)
        self._staging.used()

    def _upload_large(self, host: NDArray[Any], into: Array) -> None:
        pinned = self._pinned.take(host.nbytes)
        np.frombuffer(pinned, host.dtype, host.size).reshape(host.shape)[...] = host
        into[: len(host)].data.copy_from_host_async(ctypes.c_void_p(pinned.ptr), host.nbytes, self.handle)
        self.wait()
        self._pinned.give(pinned, host.nbytes)

    def copied(self, array: Array) -> Array:
        with self.handle:
            return array.copy()

    def download(self, array: Array) -> NDArray[Any]:
        return self.later(array)()

    def later(self, array: Array) -> Later:
        size, dtype, shape = array.nbytes, array.dtype, array.shape
        pinned, copied = self._pinned.take(size), self._free_event()
        array.data.copy_to_host_async(ctypes.c_void_p(pinned.ptr), size, self.handle)
        copied.record(self.handle)

        def read() -> NDArray[Any]:
            copied.synchronize()
            host: NDArray[Any] = np.frombuffer(pinned, np.uint8, size).view(dtype).reshape(shape).copy()
            self._pinned.give(pinned, size)
            self._events.append(copied)
            return host

        return read

    def planes(self, frames: Array, surface: Surface) -> NDArray[Any]:
        # Memory for the largest range so far, so that shorter ones take none of their own.
        count, rest = len(frames), frames.shape[1:]
        self._most[rest] = max(count, self._most.get(rest, 0))
        shape = (self._most[rest], *rest)
        out = self._buffer("planar", shape, frames.dtype)[:count]
        self._launch(
            surface_kernel("planar", surface, np.float32),
            surface.width * surface.height // 4,
            (frames, *_size(surface), np.int32(count), out),
            deep=count,
        )
        host, address = self._pinned.array(shape, frames.dtype)
        out.data.copy_to_host_async(ctypes.c_void_p(address), out.nbytes, self.handle)
        self.wait()
        return host[:count]

    def mark(self) -> Any:
        if self._taken:
            # Copies of pictures go on FFmpeg's stream; the last one's event says that all are done.
            self.handle.wait_event(self._taken[-1][1])
        event = sleeping_event()
        event.record(self.handle)
        return event

    def after(self, mark: Any) -> None:
        self.handle.wait_event(mark)

    def take(self, picture: Any, surface: Surface, into: Array) -> None:
        # On the stream on which FFmpeg works, so that it comes after the picture is there.
        source = self._cp.cuda.Stream.null
        copied = self._free_event()
        if len(self._taken) == _TAKEN:
            _, before = self._taken.popleft()
            before.synchronize()
            self._events.append(before)
        width, height = surface.width * into.itemsize, surface.height
        luma, chroma = nvdec.device_rows(picture)
        copy_rows(into.data.ptr, width, *luma, height, source)
        copy_rows(into.data.ptr + height * width, width, *chroma, height // 2, source)
        copied.record(source)
        self._taken.append((picture, copied))

    def _free_event(self) -> Any:
        try:
            return self._events.pop()
        except IndexError:
            return sleeping_event()

    def wait(self) -> None:
        """Until the card has done all that was asked, asleep. Pictures that were taken are let go."""
        while self._taken:
            _, copied = self._taken.popleft()
            copied.synchronize()
            self._events.append(copied)
        self._event.record(self.handle)
        self._event.synchronize()

    def release(self) -> None:
        self.wait()
        self._cp.get_default_memory_pool().free_all_blocks()

    def crop(
        self,
        frames: Array,
        surface: Surface,
        plan: CropPlan,
        packing: Packing,
        out: Array,
        *,
        side: int,
        phases: int = 1,
        tall: int | None = None,
        filled: tuple[int, int] | None = None,
    ) -> None:
        tall = tall or side
        frame_of, affine, taps = self._staging.put(plan.frame_of, plan.affine, plan.taps)
        columns, rows = filled or (side, tall)
        self._launch(
            surface_kernel("crop", surface, out.dtype),
            len(plan) * tall * side,
            (frames, *_size(surface), self._table(surface.code), np.int32(len(plan)), frame_of, affine, taps),
            (
                np.int32(side),
                np.int32(tall),
                np.int32(phases),
                np.int32(columns),
                np.int32(rows),
                self._table(packing.pack),
            ),
            (np.int32(packing.swapped), np.int32(packing.interleaved), out),
        )
        self._staging.used()

    def faces(self, heads: Sequence[Array], frames: int, least: float, across: int) -> tuple[NDArray[np.int32], Floats]:
        batch, fine = len(heads[0]), int(heads[0].shape[1])
        every = yunet.cells_of(fine)
        found = self._buffer("found", (batch,), np.int32)
        cells = self._buffer("cells", (batch, every), np.int32)
        scores = self._buffer("scores", (batch, every), np.float32)
        # One array, so that one copy brings all of it: per frame the count (as a float) and the faces.
        told = self._buffer("told", (batch * (1 + yunet.MOST * yunet.FIELDS),), np.float32)
        kept = told[:batch].view(np.int32)
        out = told[batch:]
        found.data.memset_async(0, found.nbytes, self.handle)
        self._launch(
            compiled("yunet", "yunet_cells", (), False),
            frames * every,
            (*heads, np.int32(frames), np.int32(fine), np.float32(least), found, cells, scores),
        )
        self._launch(
            compiled("yunet", "yunet_faces", (), False),
            frames,
            (
                *heads,
                np.int32(frames),
                np.int32(fine),
                np.int32(across // 8),
                np.float32(yunet.MOST_OVERLAP),
                found,
                cells,
                scores,
                kept,
                out,
            ),
            threads=32,
        )
        host = self.download(told)
        count = host[:batch].view(np.int32)[:frames]
        return count, host[batch:].reshape(batch, yunet.MOST, yunet.FIELDS)[:frames]

    def usable(self, made: Array, count: int, unpacking: Packing, mask: Array, phases: int, *, out: Array) -> None:
        pictures, small = count * phases**2, int(made.shape[2])
        sums = self._buffer("sums", (len(made) * small, usable.SUMS), np.float32)
        totals = self._buffer("totals", (len(made), usable.SUMS), np.float64)
        types = (("MADE", type_name(made.dtype)),)
        self._launch(
            compiled("usable", "usable_columns", types, False),
            pictures * 3 * small,
            (made, np.int32(pictures), np.int32(small), np.int32(phases), mask, self._table(unpacking.unpack), sums),
        )
        self._launch(
            compiled("usable", "usable_totals", types, False),
            count * usable.SUMS,
            (sums, np.int32(count), np.int32(phases**2 * small), totals),
            threads=32,
        )
        self._launch(
            compiled("usable", "usable_faces", types, False),
            count,
            (totals, np.int32(count), np.float32(usable.FLAT), out),
            threads=32,
        )

    def recolour(
        self,
        given: Array,
        made: Array,
        packing: Packing,
        unpacking: Packing,
        masks: Array,
        plan: PastePlan,
        phases: int,
        *,
        share: float,
    ) -> None:
        count, small = len(plan), int(made.shape[2])
        pictures = np.int32(count * phases**2)
        sums = self._buffer("lab sums", (len(made) * small, lab.SUMS), np.float64)
        totals = self._buffer("lab totals", (len(made), lab.SUMS), np.float64)
        moves = self._buffer("lab moves", (len(made), lab.MOVES), np.float32)
        types = (("GIVEN", type_name(given.dtype)), ("MADE", type_name(made.dtype)))
        space = self._table(SPACE)
        swapped = np.int32(packing.swapped), np.int32(unpacking.swapped)
        mask_of, strength = self._staging.put(plan.mask_of, plan.strength)
        self._launch(
            compiled("lab", "lab_columns", types, False),
            int(pictures) * small,
            (given, made, pictures, np.int32(small), np.int32(phases), masks, mask_of, strength),
            (self._table(packing.pack), swapped[0], self._table(unpacking.unpack), swapped[1], space, sums),
            threads=64,
        )
        self._staging.used()
        self._launch(
            compiled("lab", "lab_totals", types, False),
            count * lab.SUMS,
            (sums, np.int32(count), np.int32(phases**2 * small), totals),
            threads=32,
        )
        self._launch(compiled("lab", "lab_moves", types, False), count, (totals, np.int32(count), moves), threads=32)
        self._launch(
            compiled("lab", "lab_recolour", types, False),
            int(pictures) * small**2,
            (made, pictures, np.int32(small), np.int32(phases), self._table(unpacking.unpack), swapped[1], space),
            (moves, np.float32(share)),
        )

    def mix(
        self,
        given: Array,
        made: Array,
        reach: NDArray[np.int32],
        packing: Packing,
        unpacking: Packing,
        *,
        blend: float,
        out: Array,
    ) -> None:
        [reached] = self._staging.put(reach)
        side, count = int(given.shape[2]), len(reach)
        self._launch(
            compiled("mix", "mix", (("GIVEN", type_name(given.dtype)), ("MADE", type_name(made.dtype))), False),
            count * side**2,
            (given, made, np.int32(count), np.int32(side), reached, self._table(packing.pack)),
            (np.int32(packing.swapped), self._table(unpacking.unpack), np.int32(unpacking.swapped)),
            (np.float32(blend), out),
        )
        self._staging.used()

    def paste(
        self,
        frames: Array,
        surface: Surface,
        plan: PastePlan,
        made: Array,
        unpacking: Packing,
        masks: Array,
        table: Array,
        *,
        phases: int = 1,
    ) -> None:
        if not len(plan):
            return
        frame_of, box, affine, layers, mask_of, strength = self._staging.put(
            plan.frame_of, plan.box, plan.affine, plan.layers, plan.mask_of, plan.strength
        )
        sizes = plan.box[:, 2:] - plan.box[:, :2]
        across, down = (max(1, int(v) // 2) for v in sizes.max(axis=0))
        kernel = surface_kernel("paste", surface, made.dtype)
        for layer in range(int(plan.layers.max()) + 1):
            self._launch(
                kernel,
                across * down,
                (frames, *_size(surface), self._table(surface.code), np.int32(len(plan)), frame_of, box, affine),
                (np.int32(masks.shape[1]), np.int32(phases), made, self._table(unpacking.unpack)),
                (np.int32(unpacking.swapped), masks, mask_of, strength, table, np.int32(layer), layers),
                (np.int32(across),),
                deep=len(plan),
            )
        self._staging.used()

    def overlay(self, frames: Array, surface: Surface, count: int, given: Overlay) -> None:
        top = np.float32(given.top)
        luma, chroma = given.luma, given.chroma
        values, weight, cb, cr, kept = (
            self._table(part) for part in (given.values, given.weight, given.cb, given.cr, given.kept)
        )
        for name, box, tables in (("overlay_luma", luma, (values, weight)), ("overlay_chroma", chroma, (cb, cr, kept))):
            left, upper, right, lower = box
            columns, rows = right - left, lower - upper
            self._launch(
                surface_kernel("overlay", surface, np.float32, name),
                columns * rows,
                (frames, *_size(surface), np.int32(count), np.int32(left), np.int32(upper), np.int32(columns)),
                (np.int32(rows), *tables, top),
                deep=count,
            )

    def _launch(
        self, kernel: Any, count: int, *arguments: tuple[Any, ...], threads: int = _THREADS, deep: int = 1
    ) -> None:
        """One thread for each of `count`, times `deep` along the grid's second axis."""
        flat = tuple(argument for group in arguments for argument in group)
        kernel((-(-count // threads), deep), (threads,), flat, stream=self.handle)

    def _table(self, host: Floats) -> Array:
        """A constant, put on the card once."""
        key = host.tobytes()
        if key not in self._tables:
            with self.handle:
                self._tables[key] = self._cp.asarray(host)
            self.wait()
        return self._tables[key]

    def _buffer(self, name: str, shape: tuple[int, ...], dtype: Any) -> Array:
        key = (name, shape)
        if key not in self._scratch:
            self._scratch[key] = self.empty(shape, dtype)
        return self._scratch[key]


def copy_rows(target: int, width: int, source: int, pitch: int, rows: int, stream: Any) -> None:
    """Rows of `width` bytes from the device address `source`, `pitch` bytes apart, to `target`, closely packed."""
    runtime = cupy().cuda.runtime
    runtime.memcpy2DAsync(target, width, source, pitch, width, rows, runtime.memcpyDeviceToDevice, stream.ptr)


def _size(surface: Surface) -> tuple[np.int32, np.int32]:
    return np.int32(surface.width), np.int32(surface.height)
