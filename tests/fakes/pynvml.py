"""A made-up NVIDIA management library for real worker processes: one card, with the memory the environment says."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

NVML_CLOCK_SM = 1
NVML_TEMPERATURE_GPU = 0
_MIB = 2**20


class NVMLError(Exception):
    """What the made-up card does not support."""


@dataclass(frozen=True)
class _Memory:
    total: int
    free: int
    used: int = 0


def nvmlInit() -> None:
    if "FAKE_CARD_MIB" not in os.environ:
        raise NVMLError


def nvmlShutdown() -> None: ...


def nvmlDeviceGetCount() -> int:
    return 1


def nvmlDeviceGetHandleByIndex(index: int) -> int:
    return index


def nvmlDeviceGetUUID(handle: Any) -> str:
    return f"GPU-of-{os.environ['FAKE_CARD_MIB']}"


def nvmlDeviceGetName(handle: Any) -> str:
    return "NVIDIA Test"


def nvmlDeviceGetMemoryInfo(handle: Any) -> _Memory:
    total = int(os.environ["FAKE_CARD_MIB"]) * _MIB
    return _Memory(total, total)


def __getattr__(name: str) -> Any:
    def unsupported(*_: object) -> None:
        raise NVMLError(name)

    if name.startswith("nvml"):
        return unsupported
    raise AttributeError(name)
