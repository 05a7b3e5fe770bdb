"""The Celery application: one task, a wake-up that carries nothing that could be lost.

PostgreSQL says what is to be done. A message only says "look": a lost one is sent again by the reconciler, a doubled
one finds nothing. So messages are acknowledged at once, results are not kept and no broker feature is relied on.
"""

from __future__ import annotations

import multiprocessing
from typing import Any

import structlog
from celery import Celery, signals

from farm import log as farm_log
from farm.settings import Settings, load_settings
from farm.wakeups import QUEUE, TASK
from farm.worker.memory import limit_memory
from farm.worker.slot import Slot

log = structlog.get_logger(__name__)

# Set in the parent, seen by its forked children: this worker takes no more tasks.
draining = multiprocessing.Event()

_slot: Slot | None = None


def _the_slot() -> Slot:
    if _slot is None:
        raise RuntimeError("A wake-up ran outside a Celery child; the slot is made when the child starts.")
    return _slot


def make_app(settings: Settings) -> Celery:
    """Celery set up for wake-ups only."""
    app = Celery("farm", broker=settings.broker_url)
    app.conf.update(
        task_default_queue=QUEUE,
        task_ignore_result=True,
        task_acks_late=False,
        task_serializer="json",
        accept_content=["json"],
        worker_prefetch_multiplier=1,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_transport_options={"socket_keepalive": True, "health_check_interval": 10},
        worker_cancel_long_running_tasks_on_connection_loss=False,
        worker_enable_remote_control=False,
        worker_send_task_events=False,
    )
    return app


app = make_app(load_settings())


@app.task(name=TASK)  # type: ignore[untyped-decorator]
def wake() -> None:
    """Claim and run tasks until there is none for this slot."""
    _the_slot().work()


@signals.worker_process_init.connect  # type: ignore[untyped-decorator]
def _start_slot(**_: Any) -> None:
    global _slot
    settings = load_settings()
    farm_log.configure(settings.log_level, settings.log_format)
    limit_memory(settings)
    _slot = Slot.start(settings, draining=draining.is_set)


@signals.worker_process_shutdown.connect  # type: ignore[untyped-decorator]
def _stop_slot(**_: Any) -> None:
    if _slot is not None:
        _slot.close()


@signals.worker_shutting_down.connect  # type: ignore[untyped-decorator]
def _drain(**_: Any) -> None:
    draining.set()


@signals.setup_logging.connect  # type: ignore[untyped-decorator]
def _log(**_: Any) -> None:
    settings = load_settings()
    farm_log.configure(settings.log_level, settings.log_format)
