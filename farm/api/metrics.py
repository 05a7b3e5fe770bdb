"""Prometheus metrics of this process; the farm's counts come from its database when they are asked for."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import cast

from flask import Flask, Response, g, request
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from farm.api.services import Services
from farm.errors import FarmError


def register(app: Flask) -> CollectorRegistry:
    """Count and time the application's requests; the registry is what /metrics shows."""
    registry = CollectorRegistry()
    requests = Counter("farm_api_requests_total", "Requests answered", ("method", "route", "status"), registry=registry)
    seconds = Histogram(
        "farm_api_request_seconds", "Time to the first byte of the answer", ("route",), registry=registry
    )
    ProcessCollector(registry=registry)
    registry.register(_Jobs(cast(Services, app.extensions["farm"])))

    def count(response: Response) -> Response:
        route = request.url_rule.rule if request.url_rule else "none"
        requests.labels(request.method, route, str(response.status_code)).inc()
        seconds.labels(route).observe(time.monotonic() - g.request_began)
        return response

    app.after_request(count)
    return registry


class _Jobs(Collector):
    """Jobs by state, and whether the database could say."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def describe(self) -> Iterator[Metric]:
        """Nothing before the first scrape: registering must not ask the database."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        jobs = GaugeMetricFamily("farm_jobs", "Jobs that are not final, by state", labels=("state",))
        up = GaugeMetricFamily("farm_database_up", "1 where the database answers")
        try:
            for state, count in sorted(self._services.ledger.open_counts().items()):
                jobs.add_metric((state,), count)
            up.add_metric((), 1)
        except FarmError:
            up.add_metric((), 0)
        yield jobs
        yield up
