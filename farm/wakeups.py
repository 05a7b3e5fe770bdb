"""Sends wake-ups to the workers by Celery, for programs that run no task themselves: the API and the reconciler."""

from __future__ import annotations

import threading
from collections.abc import Callable

import structlog
from celery import Celery

from farm.jobs.reconcile.outbox import Message

QUEUE = "farm"
TASK = "farm.wake"
MOST_AT_ONCE = 64

log = structlog.get_logger(__name__)


class Wakeups:
    """The `send` of an OutboxDispatcher. Raises what the broker's library raises; the message then stays for later."""

    def __init__(self, broker_url: str | None) -> None:
        self._celery = Celery("farm", broker=broker_url, set_as_current=False)
        self._celery.conf.update(
            broker_connection_timeout=2,
            broker_transport_options={"socket_connect_timeout": 2, "socket_timeout": 5},
        )

    def __call__(self, message: Message) -> None:
        with self._celery.producer_pool.acquire(block=True) as producer:
            for _ in range(min(int(message.payload.get("count", 1)), MOST_AT_ONCE)):
                self._celery.send_task(TASK, queue=QUEUE, ignore_result=True, retry=False, producer=producer)

    def close(self) -> None:
        self._celery.close()


class Hurry:
    """Runs `work` soon after a call, on a thread of its own; the calls that come meanwhile become one.

    Whoever calls waits for nothing: a broker that is away costs a submission no time.
    """

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work
        self._called = threading.Event()
        self._start = threading.Lock()
        self._thread: threading.Thread | None = None

    def __call__(self) -> None:
        self._called.set()
        with self._start:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="hurry", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while self._called.wait():
            self._called.clear()
            try:
                self._work()
            except Exception as error:  # the reconciler does it anyway
                log.warning("wake-up not sent", error=type(error).__name__)
