"""`python -m farm.worker`: one Celery worker for each card of this machine, or one for its processors.

This program only starts, watches and stops them. CUDA is first touched in a Celery child, never here.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial

import structlog

from farm import log as farm_log
from farm.db.engine import Sessions, make_engine, make_sessions
from farm.db.enums import RequestedState
from farm.errors import PolicyError
from farm.jobs.fit import Measured
from farm.settings import PREFIX, Settings, load_settings, required
from farm.store.factory import open_store
from farm.worker.attempt_log import AttemptLogs
from farm.worker.calls import Calls, Ear, Listener
from farm.worker.devices import Card, card_codecs, find_cards, load_nvml
from farm.worker.keeper import Keeper
from farm.worker.leaving import Goodbye, drain, watch
from farm.worker.leftovers import Leftovers
from farm.worker.mps import Mps
from farm.worker.notice import make_notice
from farm.worker.plan_slots import PLANS, PlanBook, room_mib, slots_of
from farm.worker.registry import Registration
from farm.worker.relay import Relay
from farm.worker.scratch import CALLS, LOGS, MPS, RELAYS, REPORTS, SEATS, scratch_root
from farm.worker.slot_report import SlotCollector, read_reports
from farm.worker.telemetry import read_cards, serve_telemetry

log = structlog.get_logger(__name__)

SETTLED_SECONDS = 20.0
LONGEST_PAUSE = 30.0
REFUSED = 2


@dataclass(frozen=True, slots=True)
class CeleryWorker:
    """What one Celery worker is started with."""

    id: str
    device: str
    slots: int
    vram_mib: int
    codecs: tuple[str, ...]
    argv: tuple[str, ...]
    environment: dict[str, str]

    @property
    def card(self) -> str:
        """The uuid of its card; "" for the processors."""
        return self.environment["CUDA_VISIBLE_DEVICES"]

    def with_environment(self, more: Mapping[str, str]) -> CeleryWorker:
        return replace(self, environment={**self.environment, **more})


def no_codecs(_uuid: str) -> tuple[str, ...]:
    """A card that is not asked for its encoders."""
    return ()


def plan_workers(
    settings: Settings,
    cards: Sequence[Card],
    *,
    host: str,
    cores: int,
    codecs: Callable[[str], tuple[str, ...]] = no_codecs,
) -> list[CeleryWorker]:
    """One Celery worker a card, with its slots; without a card, one whose slots share the processors.

    codecs: finds the hardware encoders of a card by its uuid.
    """
    name = settings.worker_name or host
    book = PlanBook(settings.home / PLANS)
    planned = [slots_of(card, book, asked=settings.slots, cores=cores // len(cards)) for card in cards]
    devices = [
        (f"gpu{index}", card.uuid, slots, room_mib(card.total_mib) // slots)
        for index, (card, slots) in enumerate(zip(cards, planned, strict=True))
    ]
    devices = devices or [("cpu", "", settings.slots or 1, 0)]
    threads = settings.threads or max(1, cores // sum(slots for _, _, slots, _ in devices))
    return [
        _celery_worker(f"{name}-{device}"[:64], device, slots, threads, uuid, vram, codecs(uuid) if uuid else ())
        for device, uuid, slots, vram in devices
    ]


def _celery_worker(
    worker_id: str, device: str, slots: int, threads: int, visible: str, vram_mib: int, codecs: tuple[str, ...]
) -> CeleryWorker:
    argv = (
        *(sys.executable, "-m", "celery", "--app", "farm.worker.app", "--quiet", "worker"),
        *("--pool", "prefork", "--concurrency", str(slots), "--hostname", f"{device}@%h", "--queues", "farm"),
        *("--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "WARNING"),
    )
    environment = {
        f"{PREFIX}THREADS": str(threads),
        f"{PREFIX}WORKER_ID": worker_id,
        f"{PREFIX}SLOT_VRAM_MIB": str(vram_mib),
        f"{PREFIX}SLOT_CODECS": ",".join(codecs),
        "CUDA_VISIBLE_DEVICES": visible,
    }
    return CeleryWorker(worker_id, device, slots, vram_mib, codecs, argv, environment)


def measured_on(card: Card, book: PlanBook) -> tuple[Measured, ...]:
    """What recipes were found to need on such a card, as the farm is told of it."""
    return tuple(Measured(**asdict(need)) for need in book.needs(card))


class Restarts:
    """When a program that keeps ending is started again, and what to say of it meanwhile."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._started = clock()
        self._pause = 0.0
        self._code: int | None = None

    @property
    def trouble(self) -> str:
        """Why the program cannot be counted on; "" once it has run for a while."""
        if self._code is None or self._clock() - self._started >= SETTLED_SECONDS:
            return ""
        return f"Its program ends with exit code {self._code} soon after each start; its log says why."

    def due(self, code: int) -> bool:
        """Whether the program, which has ended with `code`, is started now: at once the first time, then later."""
        ran = self._clock() - self._started
        if ran < self._pause:
            return False
        early = ran < SETTLED_SECONDS + self._pause
        self._pause = min(2 * self._pause + 1, LONGEST_PAUSE) if early else 0.0
        self._code = code if early else None
        self._started = self._clock()
        return True


class Running:
    """A started Celery worker and its entry in the fleet.

    One that ends soon after its start is started again after ever longer pauses, and shown as being in trouble.
    PolicyError: the farm does not take this worker; nothing was started.
    """

    def __init__(
        self,
        worker: CeleryWorker,
        sessions: Sessions,
        settings: Settings,
        calls: Calls,
        measured: Callable[[], tuple[Measured, ...]] = tuple,
    ) -> None:
        self._worker = worker
        self._restarts = Restarts(time.monotonic)
        self._asked: RequestedState | None = None
        self._left = False
        self.registration = Registration(
            sessions,
            worker.id,
            worker.device,
            worker.slots,
            settings.worker_tags,
            lambda: self._process.pid,
            vram_mib=worker.vram_mib,
            codecs=worker.codecs,
            secret=settings.worker_secret.get_secret_value() if settings.worker_secret else None,
            rate=settings.worker_rate,
            called=Ear(calls, worker.id),
            measured=measured,
            relay=Relay(scratch_root(settings) / RELAYS, worker.id),
        )
        self.registration.enter()
        self._process = self._start()

    @property
    def pid(self) -> int:
        """Of the Celery parent that runs, or ran last."""
        return self._process.pid

    def tend(self) -> None:
        """Look after the process, and do what an operator asks: RESTART and OFFLINE let its tasks end first."""
        if self._left:
            if self.registration.wanted() is not RequestedState.OFFLINE:
                self._begin_again()
            return
        code = self._process.poll()
        if code is not None and self._asked is RequestedState.OFFLINE:
            self._left = True
            self.registration.leave("An operator told it to leave.")
            return
        if code is not None and self._asked is RequestedState.RESTART:
            self._restarts = Restarts(time.monotonic)  # an end that was asked for is no trouble
            self._begin_again()
        elif code is not None and self._restarts.due(code):
            log.warning("celery worker ended; starting it again", worker=self._worker.id, exit_code=code)
            self._begin_again()
        wanted = self.registration.tend(self._restarts.trouble)
        if self._asked is None and wanted in (RequestedState.RESTART, RequestedState.OFFLINE):
            self._asked = wanted
            self.ask_to_stop()

    def ask_to_stop(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    def see_off(self, why: str) -> bool:
        """Whether the process, which was asked to stop, has ended; shows the worker as draining until then."""
        if self._left or self._process.poll() is not None:
            return True
        self.registration.tend(draining=why)
        return False

    def hand_back(self, why: str) -> None:
        """Give up what the worker has, at once: its attempts end here, and its slots hear it with their next beat."""
        if not self._left:
            self._left = True
            self.registration.leave(why)

    def wait(self, why: str = "It was told to stop.") -> None:
        """Wait until the process has ended, and say goodbye."""
        self._process.wait()
        self.hand_back(why)

    def _begin_again(self) -> None:
        self._left, self._asked = False, None
        self._process = self._start()
        self.registration.restarted()

    def _start(self) -> subprocess.Popen[bytes]:
        # A session of its own, so that a terminal's ctrl-C reaches this program alone, which then drains the workers.
        return subprocess.Popen(
            self._worker.argv, env={**os.environ, **self._worker.environment}, start_new_session=True
        )


def main() -> int:
    """Run until told to stop (SIGTERM or SIGINT) or until the machine is to be taken away; then drain.

    Every Celery worker finishes or hands back what it has. Exit code 2: this farm does not take the worker.
    """
    settings = load_settings()
    farm_log.configure(settings.log_level, settings.log_format)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    sessions = make_sessions(make_engine(required(settings, "database_url"), application="farm-fleet", pool_size=1))
    nvml = load_nvml()
    cards = find_cards(nvml)
    cores = len(os.sched_getaffinity(0))
    plans = plan_workers(settings, cards, host=socket.gethostname(), cores=cores, codecs=card_codecs)
    root = scratch_root(settings)
    book = PlanBook(settings.home / PLANS)
    measured = {card.uuid: partial(measured_on, card, book) for card in cards}
    services = [Mps.start(plan.card, plan.slots, root / MPS / plan.id) for plan in plans]
    plans = [plan.with_environment(mps.environment) for plan, mps in zip(plans, services, strict=True)]
    on_cards = {plan.id: (plan.card, plan.slots) for plan in plans if plan.card}
    keeper = Keeper(on_cards, root / SEATS, lambda: read_cards(nvml) if nvml is not None else [])
    if settings.worker_metrics_port:
        slots = SlotCollector(lambda: read_reports(root / REPORTS, time.time()))
        serve_telemetry(nvml, settings.worker_metrics_port, keeper, slots)
    leftovers = Leftovers(sessions, AttemptLogs(scratch_root(settings) / LOGS, open_store(settings)))
    calls = Calls(root / CALLS)
    line = make_engine(required(settings, "database_url"), application="farm-calls", pool_size=1)
    listener = Listener(line, calls.mark)
    workers: list[Running] = []
    try:
        workers += [Running(plan, sessions, settings, calls, measured.get(plan.card, tuple)) for plan in plans]
        listener.start()

        def chores() -> None:
            leftovers.send()
            keeper.tend()
            calls.sweep()

        goodbye = watch(workers, stop, make_notice(settings.preemption), chores)
    except PolicyError as error:
        log.error("this farm does not take the worker", error=str(error))
        drain(workers, Goodbye("It is not registered.", 0.0))
        return REFUSED
    drain(workers, goodbye)
    listener.stop()
    for mps in services:
        mps.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
