"""What a transaction has to tell: events, messages and running counts, written just before it commits.

They are written last, for two reasons. The events of a job are numbered under a lock that lasts until the commit, so
that their ids rise in the order of the commits and a reader that asks for "all after n" misses none. And the counts of
a project are the busiest rows of all: they are locked for the shortest time, always after every other row.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from sqlalchemy import bindparam, text
from sqlalchemy import event as sa_event
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Session

_KEY = "farm.ledger"
CALLS_CHANNEL = "farm_calls"


@dataclass(slots=True)
class _Ledger:
    events: list[dict[str, Any]] = field(default_factory=list)
    calls: set[str] = field(default_factory=set)
    wakes: Counter[str] = field(default_factory=Counter)
    running: Counter[str] = field(default_factory=Counter)
    gpu_seconds: Counter[str] = field(default_factory=Counter)
    money: Counter[str] = field(default_factory=Counter)


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
    """Announce that `count` tasks of the lane have become ready, and see that claims look into the lane.

    With 0: its tasks are more urgent now.
    """
    _ledger(session).wakes[lane_id] += count


def call(session: Session, name: str) -> None:
    """Tell the slots of a job, or of a worker, to report at once and hear what is wanted of them (its id)."""
    _ledger(session).calls.add(name)


def count(session: Session, submitter_id: str, running: int, gpu_seconds: float = 0.0, money: float = 0.0) -> None:
    """Change the number of running attempts, the used GPU seconds and their cost of a submitter and of its project."""
    ledger = _ledger(session)
    ledger.running[submitter_id] += running
    ledger.gpu_seconds[submitter_id] += gpu_seconds  # type: ignore[assignment]  # a Counter of seconds
    ledger.money[submitter_id] += money  # type: ignore[assignment]  # a Counter of money


def _forget(session: Session) -> None:
    session.info.pop(_KEY, None)


def _write(session: Session) -> None:
    ledger = session.info.pop(_KEY, None)
    if ledger is None:
        return
    session.flush()
    if ledger.calls:
        tell = text("SELECT pg_notify(:channel, name) FROM unnest(CAST(:names AS text[])) AS name")
        session.execute(tell, {"channel": CALLS_CHANNEL, "names": sorted(ledger.calls)})
    if ledger.wakes:
        _write_wakes(session, ledger.wakes)
    if ledger.events or ledger.running:
        _write_rest(session, ledger)


# A wake-up names no task: a claim decides by itself what is the most urgent.
_WAKES = text("""
    WITH told AS (SELECT * FROM unnest(CAST(:ids AS text[]), CAST(:counts AS int[])) AS t(id, count)),
    locked AS (SELECT id FROM lane WHERE id IN (SELECT id FROM told) ORDER BY id FOR NO KEY UPDATE),
    woken AS (
        UPDATE lane SET open = true, woken_at = clock_timestamp(), top = coalesce(greatest(
            CASE WHEN lane.open THEN lane.top END,
            (SELECT t.priority FROM task t WHERE t.lane_id = lane.id AND t.state = 'ready'
             ORDER BY t.priority DESC, t.due, t.job_seq, t.position LIMIT 1)), lane.top)
        FROM locked WHERE lane.id = locked.id
        RETURNING lane.id, lane.kind, lane.tags, lane.vram_mb, lane.models, lane.codecs)
    INSERT INTO outbox (topic, payload)
    SELECT 'wake', jsonb_build_object('kind', w.kind, 'tags', w.tags, 'vram_mb', w.vram_mb, 'models', w.models,
                                      'codecs', w.codecs, 'count', t.count)
    FROM woken w JOIN told t ON t.id = w.id WHERE t.count > 0""")


def _write_wakes(session: Session, wakes: Counter[str]) -> None:
    session.execute(_WAKES, {"ids": list(wakes), "counts": list(wakes.values())})


# One statement, since every claim and finish pays for it. The order is forced by what reads what: first the jobs'
# locks, then the events, then the counts.
_REST = text("""
    WITH locked AS MATERIALIZED (
        SELECT count(pg_advisory_xact_lock(hashtextextended(job, 0))::text) AS jobs
        FROM unnest(CAST(:jobs AS text[])) AS job),
    written AS (
        INSERT INTO event (kind, job_id, task_id, attempt_id, worker_id, before, after, actor, reason, data)
        SELECT e.kind, e.job_id, e.task_id, e.attempt_id, e.worker_id, e.before, e.after, e.actor, e.reason, e.data
        FROM locked, jsonb_to_recordset(:events) AS e(
            kind text, job_id text, task_id text, attempt_id text, worker_id text, before text, after text,
            actor text, reason text, data jsonb)
        RETURNING id, job_id, kind, before, after, actor, reason, at),
    told AS (
        INSERT INTO delivery (webhook_id, event_id, kind, body)
        SELECT w.id, e.id, e.kind, jsonb_build_object('id', e.id, 'job', e.job_id, 'kind', e.kind, 'before', e.before,
               'after', e.after, 'actor', e.actor, 'reason', e.reason, 'at', e.at)
        FROM written e JOIN job j ON j.id = e.job_id JOIN webhook w ON w.project_id = j.project_id
        WHERE e.kind LIKE 'job.%' AND w.active AND (w.kinds = '{}' OR e.kind = ANY (w.kinds))),
    after_events AS MATERIALIZED (SELECT count(*) FROM written),
    change AS (
        SELECT id, running, seconds, money
        FROM after_events, unnest(CAST(:submitters AS text[]), CAST(:running AS int[]), CAST(:seconds AS float8[]),
                                  CAST(:money AS float8[])) AS u(id, running, seconds, money)),
    projects AS (
        SELECT s.project_id AS id, sum(c.running) AS running, sum(c.seconds) AS seconds, sum(c.money) AS money
        FROM change c JOIN submitter s ON s.id = c.id GROUP BY s.project_id),
    counted AS (
        UPDATE project SET running = project.running + c.running, gpu_seconds = project.gpu_seconds + c.seconds,
                           money = project.money + c.money
        FROM projects c WHERE project.id = c.id RETURNING 1),
    after_projects AS MATERIALIZED (SELECT count(*) FROM counted)
    UPDATE submitter SET running = submitter.running + c.running
    FROM change c, after_projects WHERE submitter.id = c.id""").bindparams(bindparam("events", type_=JSONB))


def _write_rest(session: Session, ledger: _Ledger) -> None:
    submitters = sorted(s for s in ledger.running if ledger.running[s] or ledger.gpu_seconds[s])
    session.execute(
        _REST,
        {
            "jobs": sorted({event["job_id"] for event in ledger.events if event["job_id"] is not None}),
            "events": ledger.events,
            "submitters": submitters,
            "running": [ledger.running[s] for s in submitters],
            "seconds": [ledger.gpu_seconds[s] for s in submitters],
            "money": [float(ledger.money[s]) for s in submitters],
        },
    )
