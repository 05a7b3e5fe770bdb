"""Looks after the cards of this machine's workers: fewer slots while a card is held back by heat or power."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import structlog
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from farm.worker.seats import Heat, Seats
from farm.worker.telemetry import Reading

log = structlog.get_logger(__name__)


class Keeper(Collector):
    """cards: each worker's id with its card's uuid and its slots. folder: where seats are kept, one folder a worker."""

    def __init__(
        self,
        cards: Mapping[str, tuple[str, int]],
        folder: Path,
        read: Callable[[], Sequence[Reading]],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read = read
        self._kept = {
            worker: (uuid, Heat(slots, clock), Seats(folder / worker)) for worker, (uuid, slots) in cards.items()
        }
        for _, heat, seats in self._kept.values():
            seats.allow(heat.allowed)

    def tend(self) -> None:
        """Read the cards and let as many slots work as each carries now."""
        if not self._kept:
            return
        readings = {reading.uuid: reading for reading in self._read()}
        for worker, (uuid, heat, seats) in self._kept.items():
            before = heat.allowed
            if heat.see(readings.get(uuid)) != before:
                log.warning("slots changed for heat or power", worker=worker, slots=heat.allowed, before=before)
                seats.allow(heat.allowed)

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """For Prometheus: farm_gpu_slots_allowed."""
        gauge = GaugeMetricFamily("farm_gpu_slots_allowed", "Slots that heat and power allow.", labels=["worker"])
        for worker, (_, heat, _) in self._kept.items():
            gauge.add_metric([worker], heat.allowed)
        yield gauge
