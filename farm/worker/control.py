"""The worker's side of the control plane: each call is one transaction, tried again when the database is away."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, TypeVar

import structlog
from sqlalchemy.orm import Session

from farm import jobs
from farm.db.engine import Sessions, database_now, transact
from farm.errors import ErrorClass, InfrastructureError, StaleLeaseError
from farm.jobs.finish import Followed
from farm.jobs.fleet import release_slot
from farm.jobs.lost import lose_result
from farm.jobs.policy import Policy
from farm.jobs.reuse import Reusable
from farm.jobs.wire import ChunkPlan, Claim, HeartbeatAnswer, Lease, Progress, RenderResult, Result, Slot

log = structlog.get_logger(__name__)
T = TypeVar("T")

_LONGEST_PAUSE = 10.0


class Control:
    """What a slot says to the farm and hears from it.

    Claims and heartbeats are tried a few times and then fail: there will be another. What an attempt has made is
    reported for as long as it takes, since throwing away good work because the database restarts helps nobody; the
    lease token decides whether it still counts.
    """

    def __init__(self, sessions: Sessions, policy: Policy, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._sessions = sessions
        self._policy = policy
        self._sleep = sleep
        self._unsure = False
        self._followed = Followed()

    def claim(self, slot: Slot) -> Claim | None:
        """For a slot that has nothing. What an earlier claim got whose answer was lost is handed back first.

        What came with the last `finish` is given out without asking again.
        """
        followed, self._followed = self._followed, Followed()
        if followed.asked:
            return followed.claim

        def work(session: Session) -> Claim | None:
            if self._unsure:
                release_slot(session, slot.worker_id, slot.number)
            self._unsure = True
            return jobs.claim(session, slot, self._policy)

        claimed = transact(self._sessions, work)
        self._unsure = False
        return claimed

    def heartbeat(self, lease: Lease, progress: Progress, *, carries: bool = False) -> HeartbeatAnswer:
        """`carries`: say of the worker, too, that it lives."""
        return jobs.heartbeat(self._sessions, lease, progress, self._policy, carries=carries)

    def reusable(self, lease: Lease, digest: str) -> Reusable | None:
        """The result that has this fingerprint, where there is one; no task fails because it could not be asked for."""
        try:
            return transact(self._sessions, lambda session: jobs.reusable(session, lease, digest))
        except InfrastructureError as error:
            log.warning("the database is away; the chunk is rendered", error=str(error))
            return None

    def publish_plate(self, lease: Lease, facts: dict[str, Any], *, sha256: str, size: int) -> None:
        self._insist(lambda session: jobs.publish_plate(session, lease, facts=facts, sha256=sha256, size=size))

    def publish_timeline(self, lease: Lease, *, key: str, frames: int) -> None:
        self._insist(lambda session: jobs.publish_timeline(session, lease, timeline_key=key, frames=frames))

    def publish_chunk(self, lease: Lease, chunk: ChunkPlan, codecs: Sequence[str]) -> None:
        self._insist(lambda session: jobs.publish_chunk(session, lease, chunk, codecs))

    def finish(self, lease: Lease, result: Result, then: Slot | None = None) -> None:
        """Report a result; `then` is the slot that wants its next task with the same commit, and gets it by `claim`."""
        if then is None:
            self._insist(lambda session: jobs.finish(session, lease, result))
            return
        unsure = False
        if isinstance(result, RenderResult):
            try:
                followed = jobs.finish_at_once(self._sessions, lease, result, then, self._policy)
            except InfrastructureError as error:
                log.warning("the answer to a report is lost; it is sent again", error=str(error))
                unsure = True
            else:
                if followed is not None:
                    self._followed = followed
                    return

        def work(session: Session) -> None:
            jobs.finish(session, lease, result)
            if unsure:  # the commit before may have happened unseen, and have given the slot a task
                release_slot(session, then.worker_id, then.number)

        self._insist(work)
        self._followed = Followed()

    def hand_back(self) -> None:
        """Hand back the task that came with the last `finish`, if there is one: the worker leaves."""
        followed, self._followed = self._followed, Followed()
        if followed.claim is not None:
            with suppress(StaleLeaseError):
                self.fail(followed.claim.lease, ErrorClass.INTERRUPTED, "The worker leaves.")

    def fail(self, lease: Lease, error_class: str, message: str, *, cause: str = "") -> None:
        self._insist(lambda session: jobs.fail(session, lease, error_class, message, self._policy, cause=cause))

    def replan(self, lease: Lease, reason: str) -> None:
        """Ask for a plan by full decode; InputError when the job already has one."""
        self._insist(lambda session: jobs.replan(session, lease, reason))

    def lose_result(self, lease: Lease, position: int, reason: str) -> bool:
        """Have a chunk rendered again whose accepted result is lost; False when that was tried too often."""
        return self._insist(lambda session: lose_result(session, lease, position, reason))

    def now(self) -> datetime:
        """The database's clock."""
        return database_now(self._sessions)

    def _insist(self, work: Callable[[Session], T]) -> T:
        pause = 0.5
        while True:
            try:
                return transact(self._sessions, work)
            except InfrastructureError as error:
                log.warning("the database is away; the report is kept and tried again", error=str(error))
            self._sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
