"""What the steps need of a device, and its twin on the processor."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from farm.faces.cuda import crop, lab, mix, overlay, paste, planar, usable, yunet
from farm.faces.cuda.crop import CropPlan, Packing
from farm.faces.cuda.overlay import Overlay
from farm.faces.cuda.paste import PastePlan
from farm.faces.cuda.surface import Floats, Surface
from farm.media import nvdec

Array = Any
"""A NumPy or a CuPy array, as the back end makes them."""

Later = Callable[[], NDArray[Any]]
"""What was asked for: waits until it is there; to be called once."""


class Kernels(Protocol):
    """One stage's device: what is called here is done in order, and may still be going on when a call returns.

    Only `faces`, `download`, `planes` and `wait` wait. Arrays are the back end's own; plans and tables lie on the host.
    One thread at a time may use it; others ask through `mark` and `after`.
    """

    stream: int | None

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Array: ...

    def upload(self, host: NDArray[Any], into: Array) -> None:
        """Copy `host` into the first rows of `into`."""
        ...

    def copied(self, array: Array) -> Array:
        """A copy on the device."""
        ...

    def download(self, array: Array) -> NDArray[Any]: ...

    def later(self, array: Array) -> Later:
        """Ask for a copy of `array` as it is when all that was called before is done."""
        ...

    def planes(self, frames: Array, surface: Surface) -> NDArray[Any]:
        """All of `frames` as `planar.planar` stores them, in memory that is used again when no view of it is left."""
        ...

    def mark(self) -> Any:
        """A sign, for `after` of others, that all that was called so far is done."""
        ...

    def after(self, mark: Any) -> None:
        """What is called from now on begins after `mark`."""
        ...

    def take(self, picture: Any, surface: Surface, into: Array) -> None:
        """Copy a picture that a card decoded into one frame (rows, width) of a batch."""
        ...

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
    ) -> None: ...

    def faces(self, heads: Sequence[Array], frames: int, least: float, across: int) -> tuple[NDArray[np.int32], Floats]:
        """`yunet.faces` of the first `frames` of the batch."""
        ...

    def usable(self, made: Array, count: int, unpacking: Packing, mask: Array, phases: int, *, out: Array) -> None:
        """`usable.usable` of the first `count` crops into `out` (n,)."""
        ...

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
        """`lab.recolour` of the plan's crops, in place."""
        ...

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
        """`mix.mix` of as many crops as `reach` tells of."""
        ...

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
    ) -> None: ...

    def overlay(self, frames: Array, surface: Surface, count: int, given: Overlay) -> None:
        """`overlay.overlay`; the tables of `given` are kept on the device."""
        ...

    def wait(self) -> None:
        """Until all that was asked is done."""
        ...

    def release(self) -> None:
        """Give memory that nobody holds any more back to the device, for others than this back end."""
        ...


class NumpyKernels:
    """The twins behind the same interface."""

    stream: int | None = None

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Array:
        return np.zeros(shape, dtype)

    def upload(self, host: NDArray[Any], into: Array) -> None:
        into[: len(host)] = host

    def copied(self, array: Array) -> Array:
        return np.array(array)

    def download(self, array: Array) -> NDArray[Any]:
        return np.array(array)

    def later(self, array: Array) -> Later:
        made: NDArray[Any] = np.array(array)
        return lambda: made

    def planes(self, frames: Array, surface: Surface) -> NDArray[Any]:
        made: NDArray[Any] = np.empty_like(frames)
        planar.planar(frames, surface, made)
        return made

    def mark(self) -> Any:
        return None

    def after(self, mark: Any) -> None:
        """Whatever was called is done."""

    def take(self, picture: Any, surface: Surface, into: Array) -> None:
        height, width = surface.height, into.shape[1] * into.itemsize
        for rows, (address, pitch) in zip((into[:height], into[height:]), nvdec.device_rows(picture), strict=True):
            held = memoryview((ctypes.c_uint8 * (pitch * len(rows))).from_address(address))
            rows.view(np.uint8)[...] = np.frombuffer(held, np.uint8).reshape(len(rows), pitch)[:, :width]

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
        crop.crop(frames, surface, plan, packing, out, side=side, phases=phases, tall=tall, filled=filled)

    def faces(self, heads: Sequence[Array], frames: int, least: float, across: int) -> tuple[NDArray[np.int32], Floats]:
        return yunet.faces([head[:frames] for head in heads], least, across)

    def usable(self, made: Array, count: int, unpacking: Packing, mask: Array, phases: int, *, out: Array) -> None:
        out[:count] = usable.usable(made[: count * phases**2], unpacking, mask, phases)

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
        lab.recolour(given, made, packing, unpacking, masks, plan, phases, share=share)

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
        mix.mix(given, made, reach, packing, unpacking, blend=blend, out=out)

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
        paste.paste(frames, surface, plan, made, unpacking, masks, table, phases=phases)

    def overlay(self, frames: Array, surface: Surface, count: int, given: Overlay) -> None:
        overlay.overlay(frames, surface, count, given)

    def wait(self) -> None:
        """Nothing is ever still going on."""

    def release(self) -> None:
        """The processor's memory goes back by itself."""
