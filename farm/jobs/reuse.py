"""Results that need not be made again: found by what they are made of, within one project."""

from __future__ import annotations

from typing import Any

from pydantic import Field
from sqlalchemy import text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from farm.db.tables import Fingerprint
from farm.jobs.report import hold
from farm.jobs.request import Plain
from farm.jobs.states import TaskKind
from farm.jobs.wire import Lease, ObjectOut


class Reusable(Plain):
    """An accepted result that has the fingerprint, with the attempt that made it."""

    job_id: str
    position: int
    attempt_id: str
    outputs: dict[str, ObjectOut]
    report: dict[str, Any] = Field(default_factory=dict)


# A chunk's accepted result, or one that was accepted before a requeue and is kept while its job is open.
_FIND = text("""
    SELECT f.job_id, f.position, f.attempt_id,
           coalesce(f.outputs, c.outputs) AS outputs, coalesce(f.report, c.report, '{}'::jsonb) AS report
    FROM fingerprint f
    JOIN job j ON j.id = f.job_id AND j.project_id = :project
    JOIN attempt a ON a.id = f.attempt_id AND a.state = 'done' AND NOT a.garbage
    LEFT JOIN chunk c ON c.job_id = f.job_id AND c.position = f.position AND c.attempt_id = f.attempt_id
    WHERE f.digest = :digest AND f.attempt_id <> :attempt AND coalesce(f.outputs, c.outputs) IS NOT NULL
      AND NOT EXISTS (SELECT 1 FROM chunk mine WHERE mine.task_id = :task AND mine.fresh)
    ORDER BY f.job_id = :job DESC, f.attempt_id DESC LIMIT 1""")


def reusable(session: Session, lease: Lease, digest: str) -> Reusable | None:
    """Say what the attempt's result will be made of; the result that is there already, if there is one.

    Only results of the same project count, and none where a person asked for the chunk to be rendered anew.
    StaleLeaseError when the lease no longer holds.
    """
    held = hold(session, lease, TaskKind.RENDER)
    row = {"job_id": held.job.id, "position": held.task.position, "digest": digest}
    session.execute(
        insert(Fingerprint)
        .values(attempt_id=held.attempt.id, **row)
        .on_conflict_do_update(index_elements=[Fingerprint.attempt_id], set_=row)
    )
    found = session.execute(
        _FIND,
        {
            "project": held.job.project_id,
            "digest": digest,
            "attempt": held.attempt.id,
            "task": held.task.id,
            "job": held.job.id,
        },
    ).one_or_none()
    return None if found is None else Reusable.model_validate(found._asdict())
