"""What a transaction has to tell: events, messages and running counts, written just before it commits.

They are written last, for two reasons. The events of a job are numbered under a lock that lasts until the commit, so
that their ids rise in the order of the commits and a reader that asks for "all after n" misses none. And the counts of
a project are the busiest rows of all: they are locked for the shortest time, always after every other row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from sqlalchemy import event as sa_event
from sqlalchemy import insert, text
from sqlalchemy.orm import Session

from farm.db.enums import OutboxTopic, TaskKind
from farm.db.tables import Event, Lane, Outbox

_KEY = "farm.ledger"


@dataclass(slots=True)
class _Ledger:
    events: list[dict[str, Any]] = field(default_factory=list)
    wakes: Counter[str] = field(default_factory=Counter)
    running: Counter[str] = field(default_factory=Counter)
    gpu_seconds: Counter[str] = field(default_factory=Counter)


def _ledger(session: Session) -> _Ledger:
    found: _Ledger | None = session.info.get(_KEY)
    if found is None:
        found = session.info[_KEY] = _Ledger()
        if not sa_event.contains(session, "before_commit", _write):
            sa_event.listen(session, "before_commit", _write)
            sa_event.listen(session, "after_rollback", _forget)
    return found


def note(
    session: Session,
    kind: str,
    *,
    job_id: str | None = None,
    task_id: str | None = None,
    attempt_id: str | None = None,
    worker_id: str | None = None,
    before: StrEnum | None = None,
    after: StrEnum | None = None,
    actor: str = "farm",
    reason: str = "",
    data: dict[str, Any] | None = None,
) -> None:
    """Write an event. `kind` is a noun and what happened to it ("job.state", "task.ready", "worker.blocked")."""
    _ledger(session).events.append(
        {
            "kind": kind,
            "job_id": job_id,
            "task_id": task_id,
            "attempt_id": attempt_id,
            "worker_id": worker_id,
            "before": before.value if before else None,
            "after": after.value if after else None,
            "actor": actor or "farm",
            "reason": reason,
            "data": data or {},
        }
    )


def wake(session: Session, lane_id: str, count: int = 1) -> None:
    """Announce that `count` tasks of the lane have become ready, and see that claims look into the lane."""
    _ledger(session).wakes[lane_id] += count


def count(session: Session, submitter_id: str, running: int, gpu_seconds: float = 0.0) -> None:
    """Change the number of running attempts and the used GPU seconds of a submitter and of its project."""
    ledger = _ledger(session)
    ledger.running[submitter_id] += running
    ledger.gpu_seconds[submitter_id] += gpu_seconds  # type: ignore[assignment]  # a Counter of seconds


def _forget(session: Session) -> None:
    session.info.pop(_KEY, None)


def _write(session: Session) -> None:
    ledger = session.info.pop(_KEY, None)
    if ledger is None:
        return
    session.flush()
    if ledger.wakes:
        _write_wakes(session, ledger.wakes)
    if ledger.events:
        _write_events(session, ledger.events)
    _write_counts(session, ledger)


def _write_wakes(session: Session, wakes: Counter[str]) -> None:
    lanes = session.execute(
        text("""
            WITH locked AS (SELECT id FROM lane WHERE id = ANY (:ids) ORDER BY id FOR NO KEY UPDATE)
            UPDATE lane SET open = true, woken_at = clock_timestamp() FROM locked WHERE lane.id = locked.id
            RETURNING lane.id, lane.kind, lane.tags, lane.vram_mb, lane.models, lane.codecs"""),
        {"ids": sorted(wakes)},
    )
    rows = [
        {"topic": OutboxTopic.WAKE, "payload": wake_payload(lane.kind, lane, wakes[lane.id])}
        for lane in lanes
        if wakes[lane.id] > 0
    ]
    if rows:
        session.execute(insert(Outbox), rows)


def wake_payload(kind: TaskKind | str, lane: Lane | Any, number: int) -> dict[str, Any]:
    """What a wake-up says: ids are not needed, since a claim decides by itself what is the most urgent."""
    return {
        "kind": str(kind),
        "tags": list(lane.tags),
        "vram_mb": lane.vram_mb,
        "models": list(lane.models),
        "codecs": list(lane.codecs),
        "count": number,
    }


def _write_counts(session: Session, ledger: _Ledger) -> None:
    for submitter_id in sorted(s for s in ledger.running if ledger.running[s] or ledger.gpu_seconds[s]):
        session.execute(
            text("""
                WITH counted AS (
                    UPDATE project SET running = project.running + :running,
                           gpu_seconds = project.gpu_seconds + :seconds
                    FROM submitter s WHERE s.id = :id AND project.id = s.project_id)
                UPDATE submitter SET running = running + :running WHERE id = :id"""),
            {"id": submitter_id, "running": ledger.running[submitter_id], "seconds": ledger.gpu_seconds[submitter_id]},
        )


def lock_events(session: Session, job_id: str) -> None:
    """Be the only one that writes events of the job until the commit."""
    session.execute(text("SELECT pg_advisory_xact_lock(hashtextextended(:job, 0))"), {"job": job_id})


def _write_events(session: Session, events: Sequence[dict[str, Any]]) -> None:
    for job_id in sorted(_jobs(events)):
        lock_events(session, job_id)
    session.execute(insert(Event), list(events))


def _jobs(events: Iterable[dict[str, Any]]) -> set[str]:
    return {event["job_id"] for event in events if event["job_id"] is not None}
