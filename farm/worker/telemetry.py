"""What this machine's cards are doing, by NVIDIA's management library: for Prometheus and `farm worker --top`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from rich.table import Table

T = TypeVar("T")

_SM_CLOCK = 1  # NVML_CLOCK_SM
_CORE_SENSOR = 0  # NVML_TEMPERATURE_GPU
_SLOWED = 0x0008 | 0x0020 | 0x0040 | 0x0080
"""Reasons for a lower clock that say "too hot" or "not enough power": hardware slowdown, thermal by software or
hardware, power brake (NVML's clocks event reasons)."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One card at one moment; None where it does not tell.

    gpu, memory_busy, decoder, encoder: percent of the last moment. sm_mhz: clock. used_mib, total_mib: device memory.
    watts. celsius. throttled: whether heat or power holds the clock down.
    """

    uuid: str
    gpu: float | None
    memory_busy: float | None
    decoder: float | None
    encoder: float | None
    sm_mhz: float | None
    used_mib: float | None
    total_mib: float | None
    watts: float | None
    celsius: float | None
    throttled: float | None


def read_cards(nvml: Any) -> list[Reading]:
    """All cards; what a card, its driver or a MIG slice does not support is None."""
    return [_reading(nvml, nvml.nvmlDeviceGetHandleByIndex(index)) for index in range(nvml.nvmlDeviceGetCount())]


class CardCollector(Collector):
    """Gauges named farm_gpu_…, read when they are asked for. No card: no samples."""

    def __init__(self, read: Callable[[], Sequence[Reading]]) -> None:
        self._read = read

    def collect(self) -> Iterable[GaugeMetricFamily]:
        readings = self._read()
        for field in fields(Reading):
            if field.name == "uuid":
                continue
            name, words = _GAUGES[field.name]
            gauge = GaugeMetricFamily(f"farm_gpu_{name}", words, labels=["gpu"])
            for reading in readings:
                value = getattr(reading, field.name)
                if value is not None:
                    gauge.add_metric([reading.uuid], value)
            yield gauge


def serve_telemetry(nvml: Any, port: int, *more: Collector) -> None:
    """Answer Prometheus on `port` from a thread of this process: the cards' gauges where there are any, and `more`."""
    registry = CollectorRegistry(auto_describe=False)
    if nvml is not None:
        registry.register(CardCollector(lambda: read_cards(nvml)))
    for collector in more:
        registry.register(collector)
    start_http_server(port, registry=registry)


_GAUGES = {
    "gpu": ("busy_percent", "Time in which the card ran something."),
    "memory_busy": ("memory_busy_percent", "Time in which device memory was read or written."),
    "decoder": ("decoder_percent", "Load of the video decoders."),
    "encoder": ("encoder_percent", "Load of the video encoders."),
    "sm_mhz": ("sm_clock_mhz", "Clock of the multiprocessors."),
    "used_mib": ("memory_used_mib", "Device memory in use by all processes."),
    "total_mib": ("memory_total_mib", "Device memory."),
    "watts": ("power_watts", "Power drawn."),
    "celsius": ("temperature_celsius", "Temperature of the chip."),
    "throttled": ("throttled", "1 while heat or power holds the clock down."),
}


def top_table(readings: Sequence[Reading]) -> Table:
    """One row a card."""
    table = Table("card", "busy", "memory", "decoder", "encoder", "SM MHz", "MiB used", "W", "°C", "held back")
    for r in readings:
        memory = f"{_shown(r.used_mib)} of {_shown(r.total_mib)}"
        loads = [f"{_shown(value)} %" for value in (r.gpu, r.memory_busy, r.decoder, r.encoder)]
        held = "?" if r.throttled is None else ("yes" if r.throttled else "no")
        table.add_row(r.uuid, *loads, _shown(r.sm_mhz), memory, _shown(r.watts), _shown(r.celsius), held)
    return table


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


def _reading(nvml: Any, handle: Any) -> Reading:
    uuid = nvml.nvmlDeviceGetUUID(handle)
    rates = _asked(lambda: nvml.nvmlDeviceGetUtilizationRates(handle))
    memory = _asked(lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
    milliwatts = _asked(lambda: float(nvml.nvmlDeviceGetPowerUsage(handle)))
    reasons = _asked(lambda: int(nvml.nvmlDeviceGetCurrentClocksEventReasons(handle)))
    return Reading(
        uuid=uuid.decode() if isinstance(uuid, bytes) else str(uuid),
        gpu=None if rates is None else float(rates.gpu),
        memory_busy=None if rates is None else float(rates.memory),
        decoder=_asked(lambda: float(nvml.nvmlDeviceGetDecoderUtilization(handle)[0])),
        encoder=_asked(lambda: float(nvml.nvmlDeviceGetEncoderUtilization(handle)[0])),
        sm_mhz=_asked(lambda: float(nvml.nvmlDeviceGetClockInfo(handle, _SM_CLOCK))),
        used_mib=None if memory is None else memory.used / 2**20,
        total_mib=None if memory is None else memory.total / 2**20,
        watts=None if milliwatts is None else milliwatts / 1000,
        celsius=_asked(lambda: float(nvml.nvmlDeviceGetTemperature(handle, _CORE_SENSOR))),
        throttled=None if reasons is None else float(bool(reasons & _SLOWED)),
    )


def _asked(question: Callable[[], T]) -> T | None:
    try:
        return question()
    except Exception:
        return None  # NVMLError_NotSupported: this card, driver or slice does not tell
