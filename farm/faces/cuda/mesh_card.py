"""CuPy: the mesh-warp's kernels on the stream of a `CudaKernels`."""

from __future__ import annotations

import ctypes
from collections import OrderedDict, deque
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farm.faces.cuda.backend import Array
from farm.faces.cuda.compiled import OPTIONS, cupy
from farm.faces.cuda.mesh_device import Form, Kernel
from farm.faces.cuda.surface import Surface

_THREADS = 256
_KEPT = 24
_ARENA = 48 << 20
"""Bytes of small tables for one group of faces; what is more goes its own way."""
_ALIGNED = 256


class CudaMesh:
    """The kernels on the stream of a `CudaKernels`."""

    def __init__(self, kernels: Any) -> None:
        self._kernels = kernels
        self._arenas = deque(_Arena() for _ in range(2))
        self._rooms: dict[str, Array] = {}
        self._kept: OrderedDict[tuple[int, int], tuple[NDArray[Any], Array]] = OrderedDict()

    def begin(self) -> None:
        self._arenas[0].done.record(self._kernels.handle)
        self._arenas.rotate(1)
        self._arenas[0].begin()

    def put(self, *tables: NDArray[Any]) -> list[Array]:
        return [self._put(np.ascontiguousarray(table)) for table in tables]

    def _put(self, table: NDArray[Any]) -> Array:
        there = self._arenas[0].put(table, self._kernels.handle)
        if there is None:
            there = self._kernels.empty(table.shape, table.dtype)
            self._kernels.upload(table, there)
        return there

    def keep(self, host: NDArray[Any], form: Form | None = None, kind: int = 0) -> Array:
        key = (id(host), kind)
        if key not in self._kept:
            table = np.ascontiguousarray(host if form is None else form(host))
            there = self._kernels.empty(table.shape, table.dtype)
            self._kernels.upload(table, there)
            # With the host's own array, so that no other can come to have its number.
            self._kept[key] = (host, there)
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key][1]

    def room(self, name: str, shape: tuple[int, ...], dtype: Any = np.float32, *, clean: bool = False) -> Array:
        count = int(np.prod(shape))
        held = self._rooms.get(name)
        if held is None or held.size < count or held.dtype != dtype:
            # Half as much again, so that a face that comes nearer does not ask for new memory with every batch.
            held = self._rooms[name] = self._kernels.empty((count * 3 // 2,), dtype)
        part = held[:count]
        if clean:
            part.data.memset_async(0, part.nbytes, self._kernels.handle)
        return part.reshape(shape)

    def run(self, kernel: Kernel, threads: int, deep: int, *arguments: Any, surface: Surface | None = None) -> None:
        if surface is not None:
            frames, *others = arguments
            arguments = (frames, surface.width, surface.height, self.keep(surface.code), *others)
        depth = None if surface is None else (surface.depth, surface.shift)
        grid = (-(-threads // _THREADS), deep)
        told = tuple(_told(argument) for argument in arguments)
        _compiled(kernel.source, kernel.function, depth)(grid, (_THREADS,), told, stream=self._kernels.handle)

    def download(self, array: Array) -> NDArray[Any]:
        return np.asarray(self._kernels.download(array))


class _Arena:
    """Pinned memory and as much on the device, filled from the front."""

    def __init__(self) -> None:
        cp = cupy()
        self._pinned, self._device = cp.cuda.alloc_pinned_memory(_ARENA), cp.cuda.alloc(_ARENA)
        self.done = cp.cuda.Event(block=True, disable_timing=True)
        self._held = 0

    def begin(self) -> None:
        self.done.synchronize()
        self._held = 0

    def put(self, table: NDArray[Any], stream: Any) -> Array | None:
        """The table on the device; None where there is no room left."""
        if self._held + table.nbytes > _ARENA:
            return None
        at, self._held = self._held, self._held + -(-table.nbytes // _ALIGNED) * _ALIGNED
        np.frombuffer(self._pinned, table.dtype, table.size, at).reshape(table.shape)[...] = table
        view = cupy().ndarray(table.shape, table.dtype, self._device + at)
        view.data.copy_from_host_async(ctypes.c_void_p(self._pinned.ptr + at), table.nbytes, stream)
        return view


def _told(argument: Any) -> Any:
    if isinstance(argument, bool | int):
        return np.int32(argument)
    return np.float32(argument) if isinstance(argument, float) else argument


@cache
def _compiled(source: str, function: str, depth: tuple[int, int] | None) -> Any:
    names, text = ["canvas.cuh", f"{source}.cu"], ""
    if depth is not None:
        bits, shift = depth
        text = f"#define SAMPLE unsigned {'char' if bits == 8 else 'short'}\n#define SHIFT {shift}\n"
        names.insert(0, "surface.cuh")
    folder = files("farm.faces.cuda")
    return cupy().RawKernel(
        text + "".join(folder.joinpath(name).read_text() for name in names), function, options=OPTIONS
    )
