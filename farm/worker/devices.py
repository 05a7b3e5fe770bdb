"""The cards of this machine, as the NVIDIA management library tells them; none where there is no driver."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import structlog

from farm.media.hardware import probe_argv

log = structlog.get_logger(__name__)

MIB = 2**20


@dataclass(frozen=True, slots=True)
class Card:
    """One card, or one MIG slice of a card.

    Attributes
    ----------
    uuid: what CUDA_VISIBLE_DEVICES takes ("GPU-…" or "MIG-…").
    total_mib, free_mib: device memory, MiB.
    """

    uuid: str
    name: str
    total_mib: int
    free_mib: int


class Nvml(Protocol):
    """The part of `pynvml` that is used; tests give a made-up one."""

    def nvmlInit(self) -> None: ...
    def nvmlShutdown(self) -> None: ...
    def nvmlDeviceGetCount(self) -> int: ...
    def nvmlDeviceGetHandleByIndex(self, index: int) -> Any: ...
    def nvmlDeviceGetUUID(self, handle: Any) -> str | bytes: ...
    def nvmlDeviceGetName(self, handle: Any) -> str | bytes: ...
    def nvmlDeviceGetMemoryInfo(self, handle: Any) -> Any: ...
    def nvmlDeviceGetMaxMigDeviceCount(self, handle: Any) -> int: ...
    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: Any, index: int) -> Any: ...


def load_nvml() -> Nvml | None:
    """`pynvml`, or None where the package or the driver is missing."""
    try:
        import pynvml

        pynvml.nvmlInit()
    except (ImportError, OSError):
        return None
    except pynvml.NVMLError:
        return None
    library: Nvml = pynvml
    return library


def find_cards(nvml: Nvml | None) -> list[Card]:
    """Every card that work can be put on, in the driver's order; a card cut into MIG slices counts as its slices."""
    if nvml is None:
        return []
    cards = []
    for index in range(nvml.nvmlDeviceGetCount()):
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        cards += [_card(nvml, part) for part in _slices(nvml, handle) or [handle]]
    return cards


def _slices(nvml: Nvml, handle: Any) -> list[Any]:
    try:
        count = nvml.nvmlDeviceGetMaxMigDeviceCount(handle)
    except Exception:
        return []  # NVMLError_NotSupported: not a card that can be cut
    slices = []
    for index in range(count):
        try:
            slices.append(nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index))
        except Exception:  # noqa: S112  # NVMLError_NotFound: this place is empty
            continue
    return slices


def _card(nvml: Nvml, handle: Any) -> Card:
    memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    return Card(
        uuid=_text(nvml.nvmlDeviceGetUUID(handle)),
        name=_text(nvml.nvmlDeviceGetName(handle)),
        total_mib=int(memory.total) // MIB,
        free_mib=int(memory.free) // MIB,
    )


def process_mib(nvml: Any, card: Card, pid: int) -> int:
    """Device memory that one process holds on the card, MiB; 0 where driver or container does not tell."""
    if nvml is None:
        return 0
    try:
        handle = nvml.nvmlDeviceGetHandleByUUID(card.uuid)
        for process in nvml.nvmlDeviceGetComputeRunningProcesses(handle):
            if process.pid == pid and process.usedGpuMemory:
                return int(process.usedGpuMemory) // MIB
    except Exception:
        return 0  # NVMLError_NotSupported or another namespace of process ids
    return 0


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


PROBE_SECONDS = 120.0


def card_codecs(uuid: str, argv: Sequence[str] | None = None) -> tuple[str, ...]:
    """The hardware encoders of a card, found by a process of its own; none where that fails, which is logged.

    argv: the program that prints them; by default `farm.media.hardware`.
    """
    command = list(argv or probe_argv())
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": uuid}
    try:
        done = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, timeout=PROBE_SECONDS, check=True, text=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        log.warning("the card's encoders could not be found; it gets none", card=uuid, error=type(error).__name__)
        return ()
    return tuple(done.stdout.split())
