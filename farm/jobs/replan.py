"""A renderer found that the plan does not fit the plate: plan again by decoding all of it, once."""

from __future__ import annotations

from sqlalchemy import delete
from sqlalchemy.orm import Session

from farm.db.tables import Task
from farm.jobs import moves
from farm.jobs.commands import requeue
from farm.jobs.report import hold
from farm.jobs.states import TaskKind
from farm.jobs.wire import Lease

BY_DECODING = "plan_by_decoding"
"""The job option under which a plan counts frames by decoding instead of by packets."""


def replan(session: Session, lease: Lease, reason: str) -> bool:
    """Requeue the whole job with a plan by full decode; False when that was done before and did not help.

    The caller's attempt is superseded with all others of the job. StaleLeaseError when its lease no longer holds.
    """
    held = hold(session, lease)
    job = held.job
    options = job.request.get("options", {})
    if options.get(BY_DECODING):
        return False
    why = f"Planned again by decoding the plate. {reason}"
    job.request = job.request | {"options": options | {BY_DECODING: True}}
    # The chunks go too: a claim of one whose range is wrong would only fail again.
    renders = Task.job_id == job.id, Task.kind == TaskKind.RENDER
    moves.supersede(session, job, why, where=renders)
    session.execute(delete(Task).where(*renders))
    requeue(session, job.id, actor="farm", what="job", reason=why)
    return True
