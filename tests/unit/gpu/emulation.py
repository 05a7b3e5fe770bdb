"""The kernels' own source, compiled for the processor and run thread by thread: their arithmetic without a card.

Kernels here share nothing between threads but one counter, so that running the threads one after the other is a valid
order. Half-precision tensors are not emulated.
"""

from __future__ import annotations

import ctypes
import subprocess
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from farm.faces.cuda.mesh_device import KERNELS, Kernel, NumpyMesh
from farm.faces.cuda.surface import Surface

_HEAD = """
#include <cmath>
#include <cstring>
#include <utility>
struct Place { int x, y, z; };
static thread_local Place blockIdx, threadIdx, blockDim;
#define __global__ static
#define __device__
static inline int atomicMax(int* at, int by) { int old = *at; *at = by > old ? by : old; return old; }
static inline int atomicAdd(int* at, int by) { int old = *at; *at += by; return old; }
#define SAMPLE {sample}
#define SHIFT {shift}
#define VALUE float
#define GIVEN float
#define MADE float
"""
_RUN = """
template <class T> struct From { static T of(void* p) { T v; std::memcpy(&v, p, sizeof v); return v; } };
template <class F> struct Caller;
template <class... A> struct Caller<void (*)(A...)> {
    template <std::size_t... I> static void go(void (*f)(A...), void** a, std::index_sequence<I...>) {
        f(From<A>::of(a[I])...);
    }
    static void run(void (*f)(A...), void** a, int blocks, int deep, int threads) {
        blockDim = {threads, 1, 1};
        for (int y = 0; y < deep; ++y)
            for (int x = 0; x < blocks; ++x)
                for (int t = 0; t < threads; ++t) {
                    blockIdx = {x, y, 0};
                    threadIdx = {t, 0, 0};
                    go(f, a, std::index_sequence_for<A...>{});
                }
    }
};
"""


class Emulated:
    """Calls a kernel like CuPy's RawKernel does: arrays by address, numbers by value."""

    def __init__(self, folder: Path, compiler: str, *, depth: int = 8) -> None:
        sample, shift = ("unsigned char", 0) if depth == 8 else ("unsigned short", 6)
        source = files("farm.faces.cuda")
        text = _HEAD.replace("{sample}", sample).replace("{shift}", str(shift))
        text += "".join(source.joinpath(name).read_text() for name in ("surface.cuh", "canvas.cuh"))
        for name in dict.fromkeys(function.split("::")[0].removeprefix("in_") for function in _FUNCTIONS.values()):
            body = source.joinpath(f"{name}.cu").read_text().replace('extern "C" ', "")
            text += f"namespace in_{name} {{\n{body}\n}}\n"
        text += _RUN
        for name, function in _FUNCTIONS.items():
            text += (
                f'extern "C" void run_{name}(void** a, int blocks, int deep, int threads) '
                f"{{ Caller<decltype(&{function})>::run(&{function}, a, blocks, deep, threads); }}\n"
            )
        cpp, library = folder / "kernels.cpp", folder / "kernels.so"
        cpp.write_text(text)
        subprocess.run(
            [
                compiler,
                "-std=c++17",
                "-O1",
                "-ffp-contract=off",
                "-w",
                "-shared",
                "-fPIC",
                str(cpp),
                "-o",
                str(library),
            ],
            check=True,
        )
        self._library = ctypes.CDLL(str(library))

    def launch(self, name: str, threads: int, *arguments: Any, deep: int = 1) -> None:
        held = [_argument(argument) for argument in arguments]
        table = (ctypes.c_void_p * len(held))(*(ctypes.addressof(value) for value in held))
        getattr(self._library, f"run_{name}")(table, -(-threads // 32), deep, 32)


class EmulatedMesh(NumpyMesh):
    """The mesh-warp's device with the kernels' source in the place of the twins."""

    def __init__(self, emulated: Emulated) -> None:
        self._emulated = emulated

    def run(self, kernel: Kernel, threads: int, deep: int, *arguments: Any, surface: Surface | None = None) -> None:
        if surface is not None:
            frames, *others = arguments
            arguments = (frames, surface.width, surface.height, surface.code, *others)
        self._emulated.launch(kernel.function, threads, *arguments, deep=deep)


_FUNCTIONS = {
    "crop": "in_crop::crop",
    "paste": "in_paste::paste",
    "usable_columns": "in_usable::usable_columns",
    "usable_totals": "in_usable::usable_totals",
    "usable_faces": "in_usable::usable_faces",
    "lab_columns": "in_lab::lab_columns",
    "lab_totals": "in_lab::lab_totals",
    "lab_moves": "in_lab::lab_moves",
    "lab_recolour": "in_lab::lab_recolour",
    "overlay_luma": "in_overlay::overlay_luma",
    "overlay_chroma": "in_overlay::overlay_chroma",
    "mix": "in_mix::mix",
    "planar": "in_planar::planar",
    "yunet_cells": "in_yunet::yunet_cells",
    "yunet_faces": "in_yunet::yunet_faces",
    **{kernel.function: f"in_{kernel.source}::{kernel.function}" for kernel in KERNELS},
}


def _argument(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return ctypes.c_void_p(value.ctypes.data)
    return ctypes.c_float(value) if isinstance(value, float | np.floating) else ctypes.c_int(int(value))
