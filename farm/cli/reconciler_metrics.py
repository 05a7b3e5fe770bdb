"""What the reconciler's duties did, for Prometheus: one set of series for each service."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from farm.jobs.reconcile.runner import Pass

_BOUNDS = (0.001, 0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 15.0, 60.0)


class PassMetrics:
    """Counts, times and dates every pass of every service; give it to a Runner as `report`.

    Every service has its series from the start, so that one that never ran is seen: its last run is 0.
    """

    def __init__(
        self, services: Iterable[str], registry: CollectorRegistry, clock: Callable[[], float] = time.time
    ) -> None:
        self._clock = clock
        self._done = Counter("farm_reconciler_done", "Things done by a duty", ("service",), registry=registry)
        self._failed = Counter("farm_reconciler_failed", "Passes that failed", ("service",), registry=registry)
        self._seconds = Histogram(
            "farm_reconciler_pass_seconds", "Time of a pass", ("service",), buckets=_BOUNDS, registry=registry
        )
        self._last = Gauge(
            "farm_reconciler_last_run_timestamp_seconds",
            "End of the last pass that did not fail, since 1970",
            ("service",),
            registry=registry,
        )
        for name in services:
            for series in (self._done, self._failed, self._seconds, self._last):
                series.labels(name)

    def __call__(self, done: Pass) -> None:
        self._seconds.labels(done.service).observe(done.seconds)
        if done.error:
            self._failed.labels(done.service).inc()
            return
        self._done.labels(done.service).inc(done.done)
        self._last.labels(done.service).set(self._clock())
