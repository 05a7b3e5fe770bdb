"""Pictures that stay on the card: FFmpeg's hardware decoder, its planes by DLPack, and the software one by name.

FFmpeg takes the card's primary context and insists on its blocking-synchronisation flag, which whoever makes the
context first decides: `claim_primary_context` has to run before CuPy, ONNX Runtime or anything else touches the card.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import av
from av.codec.hwaccel import HWAccel, hwdevices_available
from av.error import FFmpegError
from av.video.frame import VideoFrame

from farm.errors import InfrastructureError

NVDEC = "nvdec"
CPU = "cpu"

_BLOCKING_SYNC = 4  # CU_CTX_SCHED_BLOCKING_SYNC
_SEMI_PLANAR = {"yuv420p": "nv12", "nv12": "nv12", "yuv420p10le": "p010le", "p010le": "p010le"}


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


def choose_decoder(
    path: Path,
    *,
    sample_format: str,
    devices: Callable[[], list[str]] = hwdevices_available,
    first_picture: Callable[[Path], None] | None = None,
) -> DecoderChoice:
    """NVDEC where it gives this plate's first picture in the plate's own samples, else the software decoder and why."""
    if sample_format not in _SEMI_PLANAR:
        return DecoderChoice(CPU, f"the card's decoder has no form for {sample_format}")
    if "cuda" not in devices():
        return DecoderChoice(CPU, "FFmpeg was built without CUDA")
    try:
        (first_picture or _first_hardware_picture)(path)
    except (FFmpegError, RuntimeError, NotImplementedError, StopIteration) as error:
        return DecoderChoice(
            CPU, f"NVDEC gave no picture: {str(error).splitlines()[0][:200] if str(error) else error!r}"
        )
    return DecoderChoice(NVDEC)


def card_decoder(*, owned: bool = True) -> HWAccel:
    """FFmpeg's CUDA decoder; owned: its pictures stay on the card, else they are fetched as NV12 or P010."""
    return HWAccel("cuda", allow_software_fallback=False, is_hw_owned=owned)


def pictures(
    path: Path, decoder: str, *, start: int | None = None, threads: int = 0
) -> Generator[VideoFrame, None, None]:
    """Pictures of the plate's video stream in presentation order, from the key frame at or before pts `start`.

    With `decoder` NVDEC their planes lie on the card (`device_planes`); they must be let go soon, since they come
    from a small pool. With CPU they are semi-planar in memory.
    """
    hardware = None
    if decoder == NVDEC:
        hardware = card_decoder()
    with av.open(str(path), hwaccel=hardware) as container:
        stream = container.streams.video[0]
        if hardware is None:
            stream.thread_type = "AUTO"
            stream.codec_context.thread_count = threads
        if start is not None:
            container.seek(start, stream=stream)
        for picture in container.decode(stream):
            yield picture if hardware is not None else semi_planar(picture)


def semi_planar(picture: VideoFrame) -> VideoFrame:
    """The same samples as NV12 or P010; a picture that has them already as it is."""
    wanted = _SEMI_PLANAR[picture.format.name]
    return picture if picture.format.name == wanted else picture.reformat(format=wanted)


class DevicePlane:
    """A plane for `cupy.from_dlpack`, which asks with arguments that PyAV's planes refuse."""

    def __init__(self, plane: Any) -> None:
        self._plane = plane

    def __dlpack__(self, **_: Any) -> Any:
        return self._plane.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        device: tuple[int, int] = self._plane.__dlpack_device__()
        return device


def device_planes(picture: VideoFrame) -> tuple[DevicePlane, DevicePlane]:
    """Luma (h, w) and chroma (h/2, w/2, 2) of a hardware picture."""
    luma, chroma = picture.planes
    return DevicePlane(luma), DevicePlane(chroma)


def _first_hardware_picture(path: Path) -> None:
    for picture in pictures(path, NVDEC):
        device_planes(picture)[0].__dlpack_device__()
        return
    raise StopIteration("the stream has no picture")
