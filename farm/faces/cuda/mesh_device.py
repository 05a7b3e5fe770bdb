"""What the mesh-warp's steps need of a device: kernels, told what their twins are told, and room for arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from farm.faces.cuda import blur, canvas, dress, raster, skin
from farm.faces.cuda.backend import Array, Kernels, NumpyKernels
from farm.faces.cuda.surface import Surface

Form = Callable[[NDArray[Any]], NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Kernel:
    """A function of a .cu file and its twin, which take the same arguments.

    on_frames: the first is frames of a surface; the kernel is told its size and code, the twin the surface itself.
    """

    source: str
    function: str
    twin: Callable[..., None]
    on_frames: bool = False


RGB = Kernel("canvas", "canvas_rgb", canvas.canvas_rgb, True)
LAY = Kernel("canvas", "canvas_lay", canvas.canvas_lay, True)
UNROLL = Kernel("canvas", "unroll", canvas.unroll, True)
DRAW = Kernel("raster", "raster_draw", raster.raster_draw)
MAP = Kernel("raster", "raster_map", raster.raster_map)
SPREAD = Kernel("raster", "raster_spread", raster.raster_spread)
DRESS = Kernel("dress", "dress", dress.dress)
BLUR = Kernel("blur", "blur", blur.blur)
SKIN = Kernel("skin", "skin_draw", skin.skin_draw)
SPARE = Kernel("skin", "skin_spare", skin.skin_spare)
LUMA = Kernel("skin", "skin_luma", skin.skin_luma)
GRAIN = Kernel("skin", "skin_grain", skin.skin_grain)
FINE = Kernel("skin", "skin_fine", skin.skin_fine)
COLUMNS = Kernel("skin", "skin_columns", skin.skin_columns)
FINISH = Kernel("skin", "skin_finish", skin.skin_finish)
KERNELS = (RGB, LAY, UNROLL, DRAW, MAP, SPREAD, DRESS, BLUR, SKIN, SPARE, LUMA, GRAIN, FINE, COLUMNS, FINISH)


class MeshDevice(Protocol):
    """One stream's mesh-warp; only `download` waits."""

    def begin(self) -> None:
        """Another group of faces: what was `put` two groups ago is no longer needed."""
        ...

    def put(self, *tables: NDArray[Any]) -> list[Array]:
        """Tables on the device, until `begin` was called twice."""
        ...

    def keep(self, host: NDArray[Any], form: Form | None = None, kind: int = 0) -> Array:
        """An array that does not change, brought once and kept while it is among the last few asked for.

        form: what is made of it before, told apart from others by `kind`.
        """
        ...

    def room(self, name: str, shape: tuple[int, ...], dtype: Any = np.float32, *, clean: bool = False) -> Array:
        """Memory that holds anything (zeros where `clean`), until the same name is asked for again."""
        ...

    def run(self, kernel: Kernel, threads: int, deep: int, *arguments: Any, surface: Surface | None = None) -> None:
        """The kernel on `threads` threads for each of `deep` faces; whole numbers are int32, others float32."""
        ...

    def download(self, array: Array) -> NDArray[Any]: ...


class NumpyMesh:
    """The twins behind the same interface."""

    def begin(self) -> None:
        """Tables are never used again."""

    def put(self, *tables: NDArray[Any]) -> list[Array]:
        return list(tables)

    def keep(self, host: NDArray[Any], form: Form | None = None, kind: int = 0) -> Array:
        return host if form is None else form(host)

    def room(self, name: str, shape: tuple[int, ...], dtype: Any = np.float32, *, clean: bool = False) -> Array:
        return np.zeros(shape, dtype)

    def run(self, kernel: Kernel, threads: int, deep: int, *arguments: Any, surface: Surface | None = None) -> None:
        if kernel.on_frames:
            frames, *others = arguments
            kernel.twin(frames, surface, *others)
        else:
            kernel.twin(*arguments)

    def download(self, array: Array) -> NDArray[Any]:
        return np.array(array)


def mesh_device(kernels: Kernels) -> MeshDevice:
    """The mesh-warp's device for a back end's stream."""
    if isinstance(kernels, NumpyKernels):
        return NumpyMesh()
    from farm.faces.cuda.mesh_card import CudaMesh

    return CudaMesh(kernels)
