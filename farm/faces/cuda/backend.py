"""What the steps need of a device, and its twin on the processor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from farm.faces.cuda import colour, crop, overlay, paste, yunet
from farm.faces.cuda.crop import CropPlan, Packing
from farm.faces.cuda.overlay import Overlay
from farm.faces.cuda.paste import PastePlan
from farm.faces.cuda.surface import Floats, Surface
from farm.media import nvdec

Array = Any
"""A NumPy or a CuPy array, as the back end makes them."""


class Kernels(Protocol):
    """One stage's device: what is called here is done in order, and may still be going on when a call returns.

    Only `faces` and `download` wait. Arrays are the back end's own; plans and tables lie on the host.
    """

    stream: int | None

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Array: ...

    def upload(self, host: NDArray[Any], into: Array) -> None:
        """Copy `host` into the first rows of `into`."""
        ...

    def download(self, array: Array) -> NDArray[Any]: ...

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
        filled: tuple[int, int] | None = None,
    ) -> None: ...

    def faces(self, heads: Sequence[Array], frames: int, least: float) -> tuple[NDArray[np.int32], Floats]:
        """`yunet.faces` of the first `frames` of the batch."""
        ...

    def match(
        self,
        given: Array,
        made: Array,
        count: int,
        packing: Packing,
        unpacking: Packing,
        mask: Array,
        phases: int,
        *,
        strength: float,
        out: Array,
    ) -> None:
        """`colour.match` of the first `count` crops into `out` (n, 8)."""
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

    def download(self, array: Array) -> NDArray[Any]:
        return np.array(array)

    def take(self, picture: Any, surface: Surface, into: Array) -> None:
        luma, chroma = (np.from_dlpack(plane) for plane in nvdec.device_planes(picture))
        into[: surface.height] = luma
        into[surface.height :] = chroma.reshape(surface.height // 2, surface.width)

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
        filled: tuple[int, int] | None = None,
    ) -> None:
        crop.crop(frames, surface, plan, packing, out, side=side, phases=phases, filled=filled)

    def faces(self, heads: Sequence[Array], frames: int, least: float) -> tuple[NDArray[np.int32], Floats]:
        return yunet.faces([head[:frames] for head in heads], least)

    def match(
        self,
        given: Array,
        made: Array,
        count: int,
        packing: Packing,
        unpacking: Packing,
        mask: Array,
        phases: int,
        *,
        strength: float,
        out: Array,
    ) -> None:
        taken = count * phases**2
        out[:count] = colour.match(given[:taken], made[:taken], packing, unpacking, mask, phases, strength=strength)

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
