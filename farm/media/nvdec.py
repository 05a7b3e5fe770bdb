"""Pictures that stay on the card: FFmpeg's hardware decoder, and where its planes lie.

FFmpeg takes the card's primary context and insists on its blocking-synchronisation flag, which whoever makes the
context first decides: `claim_primary_context` has to run before CuPy, ONNX Runtime or anything else touches the card.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from av.codec.hwaccel import HWAccel
from av.video.frame import VideoFrame

from farm.errors import InfrastructureError

NVDEC = "nvdec"
CPU = "cpu"

_BLOCKING_SYNC = 4  # CU_CTX_SCHED_BLOCKING_SYNC


@dataclass(frozen=True, slots=True)
class DecoderChoice:
    """Which decoder reads a plate, and why not the card's: for the attempt's record."""

    name: str
    why: str = ""


def claim_primary_context(device: int = 0, load: Callable[[str], Any] = ctypes.CDLL) -> bool:
    """Set the flag that FFmpeg asks for on the card's primary context; False where there is no CUDA driver.

    Raises InfrastructureError where somebody in this process made the context before, with other flags.
    """
    try:
        driver = load("libcuda.so.1")
    except OSError:
        return False
    handle = ctypes.c_int()
    if driver.cuInit(0) or driver.cuDeviceGet(ctypes.byref(handle), device):
        return False
    code = driver.cuDevicePrimaryCtxSetFlags_v2(handle, _BLOCKING_SYNC)
    flags, active = ctypes.c_uint(), ctypes.c_int()
    driver.cuDevicePrimaryCtxGetState(handle, ctypes.byref(flags), ctypes.byref(active))
    if code or (active.value and not flags.value & _BLOCKING_SYNC):
        raise InfrastructureError(
            "The card was touched before its decoder could set it up.",
            where=f"CUDA device {device}",
            do="Start the worker anew; if it recurs, report it.",
        )
    return True


def card_decoder(*, owned: bool = True) -> HWAccel:
    """FFmpeg's CUDA decoder; owned: its pictures stay on the card, else they are fetched as NV12 or P010."""
    return HWAccel("cuda", allow_software_fallback=False, is_hw_owned=owned)


def device_rows(picture: VideoFrame) -> tuple[tuple[int, int], tuple[int, int]]:
    """Address, and bytes from row to row, of luma and chroma of a semi-planar picture; on the card for its decoder's.

    What DLPack would carry, without the two capsules and arrays a picture that it costs.
    """
    luma, chroma = picture.planes
    return (luma.buffer_ptr, luma.line_size), (chroma.buffer_ptr, chroma.line_size)
