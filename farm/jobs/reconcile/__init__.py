"""Small services that repair what a lost message, a dead worker or an unlucky moment left undone.

Each has a `name` and a `run_once()` that does one bounded pass and returns how many things it did. Any number of
reconcilers may run at once: rows are taken with SKIP LOCKED or looked at again under the job's lock. `Runner` runs them
in turn; `services(...)` makes the usual set.
"""

from __future__ import annotations

from farm.jobs.reconcile.budgets import BudgetKeeper
from farm.jobs.reconcile.cleaning import Garbage, KeptResults, StaleCleaner
from farm.jobs.reconcile.deadlines import DeadlineWatcher
from farm.jobs.reconcile.finishing import DependencyReleaser, Finisher
from farm.jobs.reconcile.fitting import Refitter
from farm.jobs.reconcile.leases import LeaseExpirer
from farm.jobs.reconcile.outbox import Message, OutboxDispatcher
from farm.jobs.reconcile.runner import Runner, Service
from farm.jobs.reconcile.waking import BackoffEnder, LaneCloser, Waker
from farm.jobs.reconcile.webhooks import Post, WebhookSender
from farm.jobs.reconcile.workers import WorkerReaper

__all__ = [
    "BackoffEnder",
    "BudgetKeeper",
    "DeadlineWatcher",
    "DependencyReleaser",
    "Finisher",
    "Garbage",
    "KeptResults",
    "LaneCloser",
    "LeaseExpirer",
    "Message",
    "OutboxDispatcher",
    "Post",
    "Refitter",
    "Runner",
    "Service",
    "StaleCleaner",
    "Waker",
    "WebhookSender",
    "WorkerReaper",
]
