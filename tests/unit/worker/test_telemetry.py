"""The cards' readings, with a made-up NVIDIA management library."""

from __future__ import annotations

from io import StringIO
from types import SimpleNamespace
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from rich.console import Console

from farm.worker.telemetry import CardCollector, read_cards, top_table


class _Nvml:
    """Two cards; the second tells nothing but its name, as a MIG slice does."""

    def nvmlDeviceGetCount(self) -> int:
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetUUID(self, handle: int) -> bytes | str:
        return b"GPU-a" if handle == 0 else "MIG-b"

    def _tell(self, handle: int, value: Any) -> Any:
        if handle:
            raise RuntimeError("NVMLError_NotSupported")
        return value

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> Any:
        return self._tell(handle, SimpleNamespace(gpu=98, memory=40))

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> Any:
        return self._tell(handle, SimpleNamespace(total=2**34, used=2**33))

    def nvmlDeviceGetPowerUsage(self, handle: int) -> Any:
        return self._tell(handle, 650_000)

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: int) -> Any:
        return self._tell(handle, 0x20)

    def nvmlDeviceGetDecoderUtilization(self, handle: int) -> Any:
        return self._tell(handle, [55, 100_000])

    def nvmlDeviceGetEncoderUtilization(self, handle: int) -> Any:
        raise RuntimeError("NVMLError_NotSupported")

    def nvmlDeviceGetClockInfo(self, handle: int, kind: int) -> Any:
        return self._tell(handle, {1: 1980}[kind])

    def nvmlDeviceGetTemperature(self, handle: int, sensor: int) -> Any:
        return self._tell(handle, {0: 71}[sensor])


def test_a_card_tells_and_a_slice_may_not() -> None:
    card, part = read_cards(_Nvml())
    assert (card.uuid, card.gpu, card.decoder, card.encoder, card.sm_mhz) == ("GPU-a", 98, 55, None, 1980)
    assert (card.used_mib, card.total_mib, card.watts, card.celsius, card.throttled) == (8192, 16384, 650, 71, 1)
    assert part.uuid == "MIG-b"
    assert part.gpu is None
    assert part.throttled is None


def test_prometheus_gets_what_is_known() -> None:
    registry = CollectorRegistry()
    registry.register(CardCollector(lambda: read_cards(_Nvml())))
    text = generate_latest(registry).decode()
    assert 'farm_gpu_busy_percent{gpu="GPU-a"} 98.0' in text
    assert 'farm_gpu_throttled{gpu="GPU-a"} 1.0' in text
    assert "MIG-b" not in text


def test_the_table_shows_every_card() -> None:
    table = top_table(read_cards(_Nvml()))
    console = Console(width=140, record=True, file=StringIO())
    console.print(table)
    text = console.export_text()
    assert "8192 of 16384" in text
    assert "MIG-b" in text
