"""One place where tasks run: a Celery child with its database connection, store, warm models and scratch folder."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress

import structlog

from farm.db.engine import make_engine, make_sessions
from farm.errors import (
    ErrorClass,
    FarmError,
    InputError,
    InterruptedTaskError,
    LostResultError,
    PlanMismatchError,
    StaleLeaseError,
    classify,
)
from farm.inference.bound import is_poisoned
from farm.jobs.policy import policy_of
from farm.jobs.wire import Claim, HeartbeatAnswer, Progress
from farm.jobs.wire import Slot as Offer
from farm.log import bound
from farm.settings import Settings, required
from farm.store.base import Store
from farm.store.factory import open_store
from farm.worker.attempt_log import AttemptLog, AttemptLogs, LogKey, cause_of
from farm.worker.calls import Calls, Ear
from farm.worker.control import Control
from farm.worker.heartbeat import Beat, Heartbeat
from farm.worker.processor_limit import ProcessorLimit
from farm.worker.relay import Relay
from farm.worker.scratch import CALLS, LOGS, RELAYS, SEATS, Scratch, scratch_root
from farm.worker.seats import Seats
from farm.worker.task import TaskContext
from farm.worker.tasks import run_task
from farm.worker.toolbox import Toolbox

log = structlog.get_logger(__name__)

EXIT_POISONED = 71
EXIT_RECYCLED = 72


class Slot:
    """Claims tasks and runs them, one at a time, until there is none."""

    def __init__(
        self,
        offer: Offer,
        control: Control,
        store: Store,
        scratch: Scratch,
        toolbox: Toolbox,
        settings: Settings,
        logs: AttemptLogs,
        *,
        draining: Callable[[], bool],
        calls: Calls | None = None,
        relay: Relay | None = None,
        may_work: Callable[[], bool] = lambda: True,
        exit_process: Callable[[int], object] = os._exit,
    ) -> None:
        self._may_work = may_work
        self._done = 0
        self._offer = offer
        self._control = control
        self._store = store
        self._scratch = scratch
        self._toolbox = toolbox
        self._settings = settings
        self._logs = logs
        self._draining = draining
        self._calls = calls
        self._relay = relay
        self._exit_process = exit_process
        self._drains_since: float | None = None

    @classmethod
    def start(cls, settings: Settings, *, draining: Callable[[], bool]) -> Slot:
        """The slot of this process, by the settings. A card is opened beside it (see `Toolbox.warm`)."""
        worker = required(settings, "worker_id")
        url = required(settings, "database_url")
        engine = make_engine(url, application="farm-worker", pool_size=2)
        root = scratch_root(settings)
        seats = Seats(root / SEATS / worker)
        seats.take()
        scratch = Scratch(root)
        scratch.sweep()
        store = open_store(settings)
        policy = policy_of(settings)
        toolbox = Toolbox(settings, store)
        toolbox.warm()
        return cls(
            # A slot is known by its process, so that the program that watches it can say when it died.
            Offer(
                worker_id=worker,
                number=os.getpid(),
                tags=settings.worker_tags,
                vram_mb=settings.slot_vram_mib,
                codecs=settings.slot_codecs,
            ),
            Control(make_sessions(engine), policy),
            store,
            scratch,
            toolbox,
            settings,
            AttemptLogs(root / LOGS, store),
            draining=draining,
            calls=Calls(root / CALLS),
            relay=Relay(root / RELAYS, worker),
            may_work=seats.may_work,
        )

    def work(self) -> None:
        """Claim and run until nothing is left for this slot or the worker leaves."""
        while not self._draining() and self._may_work():
            claim = self._control.claim(self._offer)
            if claim is None:
                return
            self._run(claim)
            self._done += 1
            if self._is_spent():
                log.info("this process has done its chunks; a fresh one takes its place", tasks=self._done)
                self._control.hand_back()
                self.close()
                self._exit_process(EXIT_RECYCLED)
                return
        self._control.hand_back()

    def close(self) -> None:
        self._toolbox.close()

    def _run(self, claim: Claim) -> None:
        lease = claim.lease
        ids = {"job": lease.job_id, "task": lease.task_id, "attempt": lease.attempt_id, "kind": str(claim.kind)}
        key = LogKey(lease.job_id, lease.task_id, lease.attempt_id)
        with bound(**ids), self._scratch.folder(lease.attempt_id) as folder, self._logs.keeping(key) as kept:
            log.info("task claimed", position=claim.position, number=claim.number)
            heartbeat = self._heartbeat(claim, kept)
            task = TaskContext(claim, self._control, self._store, self._toolbox, folder, heartbeat, self._settings)
            try:
                with heartbeat:
                    result = run_task(task)
                    kept.send()
                    self._control.finish(lease, result, self._next_offer())
                log.info("task done")
            except StaleLeaseError as error:
                log.info("task dropped", reason=str(error))
                if prefix := task.output_prefix():
                    self._store.delete_prefix(prefix)
                with suppress(StaleLeaseError):  # a job that is paused or cancelled waits to hear that this has stopped
                    self._control.fail(lease, ErrorClass.INTERRUPTED, str(error))
            except PlanMismatchError as error:
                self._plan_again(claim, error, kept)
            except Exception as error:
                self._report(claim, error, kept)
                if is_poisoned(error):
                    # Every later call on the card would fail too; the pool starts a new process in this one's place.
                    log.error("the card's context is lost; this process ends", exit_code=EXIT_POISONED)
                    self._exit_process(EXIT_POISONED)

    def _next_offer(self) -> Offer | None:
        """What this slot offers for the task after this one; nothing where it ends or has to pause."""
        stops = self._draining() or self._is_spent(self._done + 1) or not self._may_work()
        return None if stops else self._offer

    def _is_spent(self, done: int | None = None) -> bool:
        most = self._settings.recycle_tasks
        return bool(most) and (self._done if done is None else done) >= most

    def _heartbeat(self, claim: Claim, kept: AttemptLog) -> Heartbeat:
        every = claim.lease.heartbeat_seconds

        def beat(report: Beat) -> HeartbeatAnswer:
            nonlocal every
            progress = Progress(frames_done=report.done, fps=report.rate, note=report.note)
            carries = self._relay is not None and self._relay.is_wanted(every)
            answer = self._control.heartbeat(claim.lease, progress, carries=carries)
            if self._relay and answer.carried_seconds is not None:
                self._relay.told(answer.carried_seconds)
            every = answer.next_seconds
            return answer

        def give_up(error: FarmError) -> None:
            """The task's own thread is lost in native code: say here why its process ends."""
            if not isinstance(error, (StaleLeaseError, InterruptedTaskError)):
                self._report(claim, error, kept)

        limit = ProcessorLimit(claim.kind, f"{claim.kind} of job {claim.lease.job_id}")
        heard = Ear(self._calls, claim.lease.job_id, self._offer.worker_id) if self._calls else lambda: False
        return Heartbeat(
            beat,
            claim.lease.heartbeat_seconds,
            draining=self._leaving,
            called=heard,
            overrun=limit.overrun,
            give_up=give_up,
        )

    def _leaving(self) -> bool:
        """Whether the time that a draining worker may take for its task is over."""
        if not self._draining():
            return False
        if self._drains_since is None:
            self._drains_since = time.monotonic()
        return time.monotonic() - self._drains_since >= self._settings.drain_seconds

    def _plan_again(self, claim: Claim, mismatch: PlanMismatchError, kept: AttemptLog) -> None:
        log.warning("the plan does not fit the plate; it is planned again by decoding", error=str(mismatch))
        try:
            self._control.replan(claim.lease, str(mismatch))
        except StaleLeaseError:
            pass  # it is somebody else's by now
        except InputError as error:
            self._report(claim, error, kept)

    def _rendered_again(self, claim: Claim, error: LostResultError) -> bool:
        """Whether the lost chunk is rendered again, or the merge is somebody else's by now."""
        try:
            again = self._control.lose_result(claim.lease, error.position, str(error))
        except StaleLeaseError:
            return True
        if again:
            log.warning("the result of a chunk is lost; it is rendered again", error=str(error))
        return again

    def _report(self, claim: Claim, error: Exception, kept: AttemptLog) -> None:
        if isinstance(error, LostResultError) and self._rendered_again(claim, error):
            return
        error_class = classify(error)
        if error_class is ErrorClass.UNKNOWN:
            log.exception("task failed")
        else:
            log.warning("task failed", error_class=str(error_class), error=str(error), cause=cause_of(error))
        kept.send()
        message = str(error) if isinstance(error, FarmError) else f"{type(error).__name__}: {error}"
        with suppress(StaleLeaseError):  # then there is nothing to report any more
            self._control.fail(claim.lease, error_class, message, cause=cause_of(error))
