"""The lease behind an attempt's row, for those who act on it without having claimed it."""

from __future__ import annotations

from farm.db.tables import Attempt
from farm.jobs.wire import Lease


def lease_of(attempt: Attempt) -> Lease:
    """The attempt's lease. The two intervals are the worker's business and left at 0."""
    return Lease(
        token=attempt.lease_token,
        job_id=attempt.job_id,
        task_id=attempt.task_id,
        attempt_id=attempt.id,
        until=attempt.lease_until,
        seconds=0,
        heartbeat_seconds=0,
    )
