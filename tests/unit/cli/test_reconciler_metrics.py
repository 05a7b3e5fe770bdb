"""Each duty's own series, as Prometheus reads them."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest

from farm.cli.reconciler_metrics import PassMetrics
from farm.jobs.reconcile.runner import Pass


def test_each_duty_counts_times_and_dates_its_own_passes() -> None:
    registry = CollectorRegistry()
    metrics = PassMetrics(["leases", "waker"], registry, clock=lambda: 1000.0)
    metrics(Pass("leases", 3, 0.25))
    metrics(Pass("leases", 2, 0.5))
    metrics(Pass("leases", 0, 1.0, "the database is away"))

    def value(name: str, service: str) -> float | None:
        return registry.get_sample_value(f"farm_reconciler_{name}", {"service": service})

    assert value("done_total", "leases") == 5
    assert value("failed_total", "leases") == 1
    assert value("pass_seconds_count", "leases") == 3
    assert value("pass_seconds_sum", "leases") == 1.75
    assert value("last_run_timestamp_seconds", "leases") == 1000.0
    assert value("last_run_timestamp_seconds", "waker") == 0, "a duty that never ran is seen"
    assert b"farm_reconciler_pass_seconds_bucket" in generate_latest(registry)
