"""What a slot says of itself while it renders: rates by stage, queues, batch fill; a small file that others read.

Slots are processes of their own, and the program that watches them answers Prometheus and `farm worker --top` for all.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from rich.table import Table

STALE_SECONDS = 15.0
_EVERY = 1.0


@dataclass(frozen=True, slots=True)
class SlotReport:
    """One slot that renders.

    stages: frames a second that each stage alone would reach. queues: items that wait between stages. fill: share of
    the batches computed that was asked for, by network. provider: what runs the swapper, "" for the processor's path.
    """

    pid: int
    worker: str
    back_end: str
    provider: str
    fps: float
    stages: Mapping[str, float]
    queues: Mapping[str, int]
    fill: Mapping[str, float]
    at: float


class Reporter:
    """Writes this process's report, at most once a second, and takes it away at the end."""

    def __init__(self, folder: Path, worker: str, *, clock: Callable[[], float] = time.time) -> None:
        self._path = folder / f"{os.getpid()}.json"
        self._worker, self._clock = worker, clock
        self._last = 0.0
        self._since = clock()

    def frame(self, done: int, tell: Callable[[], Mapping[str, object]]) -> None:
        """A frame is done; `tell` gives the rest of the report when one is due."""
        now = self._clock()
        if now - self._last < _EVERY:
            return
        self._last = now
        told = {"pid": os.getpid(), "worker": self._worker, "fps": done / max(now - self._since, 1e-6), "at": now}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        beside = self._path.with_suffix(".new")
        beside.write_text(json.dumps({**told, **tell()}))
        beside.replace(self._path)

    def close(self) -> None:
        self._path.unlink(missing_ok=True)


def read_reports(folder: Path, now: float) -> list[SlotReport]:
    """The reports of slots that spoke lately, by process id."""
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            report = SlotReport(**json.loads(path.read_text()))
        except (OSError, ValueError, TypeError):
            continue  # written by another version, or just taken away
        if now - report.at <= STALE_SECONDS:
            found.append(report)
    return found


class SlotCollector(Collector):
    """Gauges named farm_slot_…, read when they are asked for."""

    def __init__(self, read: Callable[[], Iterable[SlotReport]]) -> None:
        self._read = read

    def collect(self) -> Iterable[GaugeMetricFamily]:
        reports = list(self._read())
        plain = GaugeMetricFamily("farm_slot_fps", "Frames a second of a slot.", labels=["worker", "slot", "back_end"])
        for report in reports:
            plain.add_metric([report.worker, str(report.pid), report.back_end], report.fps)
        yield plain
        for name, words, field, label in _BY_LABEL:
            gauge = GaugeMetricFamily(f"farm_slot_{name}", words, labels=["worker", "slot", label])
            for report in reports:
                for key, value in asdict(report)[field].items():
                    gauge.add_metric([report.worker, str(report.pid), key], float(value))
            yield gauge


_BY_LABEL = (
    ("stage_fps", "Frames a second that a stage alone would reach.", "stages", "stage"),
    ("queue_depth", "Items that wait between two stages.", "queues", "queue"),
    ("batch_fill", "Share of a network's batches that was asked for.", "fill", "network"),
)


def slots_table(reports: Iterable[SlotReport]) -> Table:
    """One row a slot."""
    table = Table("slot", "worker", "back end", "provider", "frames/s", "stages, frames/s", "queues", "batch fill")
    for r in reports:
        stages = ", ".join(f"{stage} {rate:.0f}" for stage, rate in sorted(r.stages.items()))
        queues = ", ".join(f"{name} {depth}" for name, depth in sorted(r.queues.items()))
        fill = ", ".join(f"{name} {share:.0%}" for name, share in sorted(r.fill.items()))
        table.add_row(str(r.pid), r.worker, r.back_end, r.provider or "-", f"{r.fps:.1f}", stages, queues, fill)
    return table
