"""A merge found that the accepted result of a chunk is gone from the store, or damaged: render that chunk again."""

from __future__ import annotations

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from farm.db.tables import Attempt
from farm.jobs import moves
from farm.jobs.commands import requeue
from farm.jobs.report import hold
from farm.jobs.states import JobState, TaskKind
from farm.jobs.wire import Lease

LOST_RESULT = "lost_result"
"""The error class of a merge attempt that met one."""


def lose_result(session: Session, lease: Lease, position: int, reason: str) -> bool:
    """Requeue the chunk whose result the merge could not read; False where that is of no use: report it with `fail`.

    The caller's attempt is superseded; the merge waits for the chunk. A store that loses results again and again
    fails the job in the end: `max_attempts` of it are enough. StaleLeaseError when the lease no longer holds.
    """
    held = hold(session, lease, TaskKind.MERGE)
    before = session.scalar(
        select(func.count()).where(Attempt.task_id == held.task.id, Attempt.error_class == LOST_RESULT)
    )
    if held.job.state is JobState.CANCELLING or (before or 0) >= held.job.max_attempts:
        return False
    held.attempt.error_class, held.attempt.error = LOST_RESULT, reason
    session.flush()
    requeue(session, held.job.id, actor="farm", what=position, reason=f"Chunk {position} is rendered again. {reason}")
    moves.complete_stop(session, held.job)
    return True
