"""As much of CuPy as the card's back end calls, in the processor's memory; kernels are their own source, see emulation.

What is asked for is done at once, so that streams and events order nothing.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.unit.gpu.emulation import Emulated


class Memory:
    """An address; `kept` keeps what lies there."""

    def __init__(self, ptr: int, kept: Any) -> None:
        self.ptr, self._kept = ptr, kept

    def __add__(self, bytes_on: int) -> Memory:
        return Memory(self.ptr + bytes_on, self._kept)

    def copy_from_device_async(self, source: Memory, size: int, stream: Any) -> None:
        ctypes.memmove(self.ptr, source.ptr, size)

    def copy_from_host_async(self, source: ctypes.c_void_p, size: int, stream: Any) -> None:
        ctypes.memmove(self.ptr, source, size)

    def copy_to_host_async(self, target: ctypes.c_void_p, size: int, stream: Any) -> None:
        ctypes.memmove(target, self.ptr, size)

    def memset_async(self, value: int, size: int, stream: Any) -> None:
        ctypes.memset(self.ptr, value, size)


class Held(np.ndarray):
    """A NumPy array whose `data` is what CuPy's is."""

    @property
    def data(self) -> Memory:  # type: ignore[override]
        return Memory(self.ctypes.data, self)


class _Pinned(bytearray):
    @property
    def ptr(self) -> int:
        return ctypes.addressof((ctypes.c_char * len(self)).from_buffer(self))


class _Stream:
    null: Any = None
    ptr = 0

    def __init__(self, **_: Any) -> None: ...
    def __enter__(self) -> _Stream:
        return self

    def __exit__(self, *_: object) -> None: ...
    def wait_event(self, event: Any) -> None: ...


class _Event:
    def __init__(self, **_: Any) -> None: ...
    def record(self, stream: Any) -> None: ...
    def synchronize(self) -> None: ...


def _alloc(size: int) -> Memory:
    kept = np.zeros(size, np.uint8)
    return Memory(kept.ctypes.data, kept)


def _ndarray(shape: tuple[int, ...], dtype: Any, memory: Memory) -> NDArray[Any]:
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return np.frombuffer((ctypes.c_uint8 * size).from_address(memory.ptr), dtype).reshape(shape).view(Held)


def cupy_twin(emulated: Callable[[int], Emulated]) -> ModuleType:
    """The module; `emulated` gives the kernels for frames of so many bits."""

    def raw_kernel(text: str, function: str, options: tuple[str, ...]) -> Callable[..., None]:
        kernels = emulated(10 if "#define SAMPLE unsigned short" in text else 8)
        assert "--fmad=false" in options

        def launch(grid: tuple[int, ...], block: tuple[int], arguments: tuple[Any, ...], stream: Any) -> None:
            # CuPy takes a plain number of Python's as 64 bits.
            assert all(isinstance(argument, Held | np.int32 | np.float32) for argument in arguments)
            kernels.launch(function, grid[0] * block[0], *arguments, deep=grid[1])

        return launch

    twin: Any = ModuleType("cupy")
    twin.ndarray, twin.RawKernel = _ndarray, raw_kernel
    twin.zeros = lambda shape, dtype: np.zeros(shape, dtype).view(Held)
    twin.asarray = lambda host: np.array(host).view(Held)
    twin.cuda = SimpleNamespace(Stream=_Stream, Event=_Event, alloc=_alloc, alloc_pinned_memory=_Pinned)
    return twin  # type: ignore[no-any-return]
