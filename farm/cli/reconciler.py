"""`farm reconciler`: the program that repairs what lost messages, dead workers and unlucky moments left undone."""

from __future__ import annotations

import signal
import threading
from datetime import timedelta

import click
import structlog
from prometheus_client import CollectorRegistry, start_http_server

from farm import log as farm_log
from farm.cli.reconciler_metrics import PassMetrics
from farm.db.engine import Sessions, make_engine, make_sessions
from farm.errors import InputError
from farm.jobs.policy import policy_of
from farm.jobs.reconcile import (
    BackoffEnder,
    BudgetKeeper,
    DeadlineWatcher,
    DependencyReleaser,
    Finisher,
    Garbage,
    KeptResults,
    LaneCloser,
    LeaseExpirer,
    OutboxDispatcher,
    Refitter,
    Runner,
    Service,
    StaleCleaner,
    Waker,
    WebhookSender,
    WorkerReaper,
)
from farm.jobs.states import TaskKind
from farm.orphans import OrphanSweeper
from farm.permits import PermitRenewer, Permits
from farm.removal import JobRemover
from farm.retention import Retention, ages
from farm.settings import Settings, load_settings
from farm.store import keys
from farm.store.base import Store
from farm.store.factory import open_store
from farm.wakeups import Wakeups
from farm.webhook_post import WebhookPost

SWEEP_SECONDS = 3600.0
SLOW = frozenset({"webhooks", "cleaner", "removal", "retention", "orphans"})
"""Duties that wait for other people's servers or for the store: leases must not wait for them."""

log = structlog.get_logger(__name__)


def make_services(sessions: Sessions, store: Store, settings: Settings, wakeups: Wakeups) -> list[Service]:
    """All duties, in the order in which one pass does them."""
    policy = policy_of(settings)
    return [
        LeaseExpirer(sessions, policy),
        WorkerReaper(sessions, policy),
        Refitter(sessions),
        BackoffEnder(sessions, policy),
        BudgetKeeper(sessions, policy),
        DeadlineWatcher(sessions),
        DependencyReleaser(sessions, policy),
        Finisher(sessions, policy),
        PermitRenewer(sessions, Permits.of(settings, sessions)),
        OutboxDispatcher(sessions, wakeups),
        Waker(sessions, policy),
        LaneCloser(sessions, policy),
        KeptResults(sessions, policy),
        StaleCleaner(sessions, lambda garbage: remove(store, garbage), policy),
        WebhookSender(sessions, WebhookPost(private_hosts=settings.webhook_private_hosts), policy),
        JobRemover(sessions, store),
        Retention(sessions, store, ages(settings), every=SWEEP_SECONDS),
        OrphanSweeper(sessions, store, age=timedelta(hours=settings.stale_upload_hours), every=SWEEP_SECONDS),
    ]


def remove(store: Store, garbage: Garbage) -> None:
    """Remove what an attempt stored that nobody wants."""
    if garbage.kind is TaskKind.RENDER:
        store.delete_prefix(keys.chunk_attempt(garbage.job_id, garbage.position, garbage.attempt_id))
    elif garbage.kind is TaskKind.MERGE:
        store.delete_prefix(keys.merge_attempt(garbage.job_id, garbage.attempt_id))


def run(settings: Settings, stop: threading.Event) -> None:
    """Reconcile until `stop` is set."""
    if settings.database_url is None:
        raise InputError("No database is set.", where="FARM_DATABASE_URL", do="Set it, or use `farm up`.")
    engine = make_engine(settings.database_url, application="farm-reconciler", pool_size=2)
    wakeups = Wakeups(settings.broker_url)
    services = make_services(make_sessions(engine), open_store(settings), settings, wakeups)
    report = _tell([service.name for service in services], settings.reconciler_metrics_port)
    quick = [service for service in services if service.name not in SLOW]
    unhurried = [service for service in services if service.name in SLOW]
    slow = Runner(unhurried, settings.reconcile_seconds, stop.wait, report)
    beside = threading.Thread(target=slow.run, name="slow-duties")
    log.info("reconciler runs", services=[service.name for service in services])
    beside.start()
    try:
        Runner(quick, settings.reconcile_seconds, stop.wait, report).run()
    finally:
        stop.set()
        beside.join()
        wakeups.close()
        engine.dispose()


def _tell(names: list[str], port: int) -> PassMetrics:
    """Keeps each duty's metric, and answers Prometheus on `port`, if that is not 0, from a thread of this process."""
    registry = CollectorRegistry()
    if port:
        start_http_server(port, registry=registry)
    return PassMetrics(names, registry)


@click.command()
def reconciler() -> None:
    """Repair the farm's books until told to stop. A farm runs at least one; `farm up` runs its own."""
    settings = load_settings()
    farm_log.configure(settings.log_level, settings.log_format)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    run(settings, stop)


if __name__ == "__main__":
    reconciler()
