"""What a machine's worker program says of its workers: that they are there, that they live, which of their slots died.

It runs in the program that watches the Celery workers, not in them, so that it goes on while every slot is busy.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import psutil
import structlog

from farm import __version__
from farm.db.engine import Sessions, transact
from farm.db.enums import RequestedState, WorkerState
from farm.errors import InfrastructureError, NotFoundError
from farm.jobs import fleet
from farm.jobs.fit import Measured, learn
from farm.jobs.wire import Slot
from farm.worker.relay import PATIENCE, Relay

log = structlog.get_logger(__name__)

LOOKS = 6
"""Attempts are buried only when they are a few seconds old, so a change of slots is looked at so many times."""


class Registration:
    """One Celery worker's entry in the fleet.

    Parameters
    ----------
    pid: gives the process id of the Celery parent, whose children are the slots.
    vram_mib, codecs: what each slot offers.
    secret: the worker's key, where the farm asks for one. rate: money per hour of one slot.
    called: says whether something is wanted of the worker since it was last asked.
    measured: what recipes were found to need on its card.
    relay: by which slots say that the worker lives.
    """

    def __init__(
        self,
        sessions: Sessions,
        worker_id: str,
        device: str,
        slots: int,
        tags: tuple[str, ...],
        pid: Callable[[], int],
        *,
        vram_mib: int = 0,
        codecs: tuple[str, ...] = (),
        secret: str | None = None,
        rate: float | None = None,
        called: Callable[[], bool] = lambda: False,
        measured: Callable[[], tuple[Measured, ...]] = tuple,
        relay: Relay | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._relay = relay
        self._sessions = sessions
        self._called = called
        self._measured = measured
        self._told: tuple[Measured, ...] = ()
        self._pid = pid
        self._secret = secret
        offers = tuple(
            Slot(worker_id=worker_id, number=number, tags=tags, vram_mb=vram_mib, codecs=codecs)
            for number in range(slots)
        )
        self._report = fleet.WorkerReport(
            id=worker_id,
            name=worker_id,
            tags=tags,
            version=__version__,
            slots=offers,
            devices=(device,) * slots,
            rate=rate,
        )
        self._registered = False
        self._clock = clock
        self._due = self._heard = self._patience = 0.0
        self._said: tuple[WorkerState, str] | None = None
        self._wish: RequestedState | None = None
        self._slots: list[int] = []
        self._looks = 0

    def enter(self) -> None:
        """Register before anything is started. PolicyError: this farm does not take the worker.

        A database that is away is logged; the first `tend` that reaches it registers.
        """
        try:
            self._register()
        except InfrastructureError as error:
            log.warning("the database is away", error=str(error))

    def _register(self) -> None:
        if not self._registered:
            transact(self._sessions, lambda session: fleet.register(session, self._report, secret=self._secret))
            self._registered, self._due = True, 0.0

    def tend(self, trouble: str = "", *, draining: str = "") -> RequestedState | None:
        """Register or beat, and end the attempts of dead slots; what an operator wants of the worker, if anything.

        `trouble` says why the worker cannot work, `draining` why it takes no more tasks: then it is shown as such, and
        gets none. Call it as often as you like: the database is asked when there is news, or when it wants to hear.

        A database that is away is logged and tried again with the next call. PolicyError: see `enter`.
        """
        try:
            self._register()
            state = WorkerState.DRAINING if draining else WorkerState.ERROR if trouble else WorkerState.AWAKE
            news = (state, draining or trouble) != self._said or self._called()
            if news or self._is_due():
                self._beat(state, draining or trouble)
            self._leave_word(state)
            self._tell()
            self._bury()
        except NotFoundError:
            self._registered = False
            return None
        except InfrastructureError as error:
            log.warning("the database is away", error=str(error))
            return None
        return self._wish

    def _beat(self, state: WorkerState, words: str) -> None:
        wish = transact(self._sessions, lambda session: fleet.beat(session, self._report.id, state, words))
        self._said, self._wish = (state, words), wish.requested
        self._heard, self._patience = self._clock(), 0.0
        self._due = self._heard + wish.next_seconds

    def _tell(self) -> None:
        """What was measured since the farm last heard of it."""
        lines = self._measured()
        if lines != self._told:
            transact(self._sessions, lambda session: learn(session, set(lines) - set(self._told)))
            self._told = lines

    def _is_due(self) -> bool:
        """Whether the worker has to be heard of now; slots that did so lately are waited for a little longer."""
        note = self._relay.last() if self._relay else None
        if note is not None and note.at > self._heard:
            self._heard, self._due, self._patience = note.at, note.at + note.seconds, PATIENCE * note.seconds
        return self._clock() >= self._due + self._patience

    def _leave_word(self, state: WorkerState) -> None:
        """Let slots say that the worker lives, for as long as that is all there is to say."""
        if self._relay and state is WorkerState.AWAKE and self._wish is None:
            self._relay.well(self._due)
        elif self._relay:
            self._relay.unwell()

    def _bury(self) -> None:
        """End the attempts of slots that died: looked for a few times after the processes of the slots have changed."""
        alive = sorted(self._alive())
        if alive != self._slots:
            self._slots, self._looks = alive, LOOKS
        if self._looks:
            transact(self._sessions, lambda session: fleet.bury(session, self._report.id, alive))
            self._looks -= 1

    def wanted(self) -> RequestedState | None:
        """What an operator wants of the worker while it does not run; OFFLINE while the database cannot say."""
        try:
            return transact(self._sessions, lambda session: fleet.requested(session, self._report.id))
        except InfrastructureError:
            return RequestedState.OFFLINE
        except NotFoundError:
            return None

    def restarted(self) -> None:
        """The Celery worker was started anew: what its former life held is handed back with the next `tend`."""
        self._registered = False

    def leave(self, reason: str) -> None:
        try:
            transact(self._sessions, lambda session: fleet.leave(session, self._report.id, reason))
        except (InfrastructureError, NotFoundError) as error:
            log.warning("could not say goodbye; the lease will tell", error=str(error))

    def _alive(self) -> list[int]:
        try:
            return [child.pid for child in psutil.Process(self._pid()).children()]
        except psutil.NoSuchProcess:
            return []
