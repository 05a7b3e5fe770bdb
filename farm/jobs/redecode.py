"""A renderer found that the plan does not fit the plate: plan again by decoding all of it, once."""

from __future__ import annotations

from sqlalchemy import update
from sqlalchemy.orm import Session

from farm.db.tables import Plate
from farm.jobs.commands import requeue
from farm.jobs.report import hold
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
    # A chunk of the refuted plan waits until the new one has come to it: a claim of it would only fail again.
    session.execute(update(Plate).where(Plate.job_id == job.id).values(by_decode=True))
    requeue(session, job.id, actor="farm", what="job", reason=why)
    return True
