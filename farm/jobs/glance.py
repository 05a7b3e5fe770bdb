"""The farm at a glance, for those who operate it: what runs, what waits, what fails, and who gets how much."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import text
from sqlalchemy.orm import Session

from farm.jobs.policy import DEFAULT, Policy
from farm.words import counted

MOST = 200
"""Rows of each list."""

_TASKS = text("""
    SELECT a.job_id AS job, j.title, a.kind, t.position, a.worker_id AS worker, a.id AS attempt, a.frames_done,
           c.last - c.first AS frames_total, a.fps, a.note,
           extract(epoch FROM clock_timestamp() - a.started_at)::float8 AS seconds,
           extract(epoch FROM clock_timestamp() - a.progress_at)::float8 AS quiet_seconds
    FROM attempt a JOIN task t ON t.id = a.task_id JOIN job j ON j.id = a.job_id
    LEFT JOIN chunk c ON c.task_id = a.task_id
    WHERE a.state = 'running' ORDER BY a.worker_id, a.slot LIMIT :most""")

_FAILING = text("""
    SELECT t.job_id AS job, j.title, t.position, t.state, t.reason, t.attempts
    FROM job j JOIN task t ON t.job_id = j.id AND t.kind = 'render'
        AND t.state IN ('failed', 'backoff', 'ready', 'running')
    WHERE (j.state NOT IN ('completed', 'failed', 'cancelled')
           AND (t.state = 'failed' OR t.charged + t.lost + t.delayed + t.shrunk > 0))
       OR (j.state = 'failed' AND t.state = 'failed' AND j.finished_at > clock_timestamp() - interval '1 day')
    ORDER BY t.state = 'failed' DESC, j.seq DESC, t.position LIMIT :most""")

_QUEUE = text("""
    SELECT l.kind, count(*) AS ready, extract(epoch FROM clock_timestamp() - min(t.ready_at))::float8 AS oldest
    FROM lane l CROSS JOIN LATERAL (
        SELECT ready_at FROM task WHERE lane_id = l.id AND state = 'ready' LIMIT :most_counted) t
    WHERE l.open GROUP BY l.kind""")

_SHARES = text("""
    WITH waiting AS (
        SELECT s.project_id, count(*) AS ready
        FROM lane l JOIN submitter s ON s.id = l.submitter_id
        CROSS JOIN LATERAL (SELECT 1 FROM task WHERE lane_id = l.id AND state = 'ready' LIMIT :most_counted) t
        WHERE l.open GROUP BY s.project_id)
    SELECT p.name, p.running, coalesce(w.ready, 0) AS ready, p.weight, p.max_running, p.gpu_seconds,
           p.budget_gpu_seconds, p.money, p.budget_money, p.budget_state
    FROM project p LEFT JOIN waiting w ON w.project_id = p.id
    WHERE p.running > 0 OR w.ready > 0 OR p.budget_gpu_seconds IS NOT NULL OR p.budget_money IS NOT NULL
    ORDER BY p.running DESC, p.name LIMIT :most""")

_WORKERS = text("""
    SELECT count(*) AS known, count(*) FILTER (WHERE live) AS live,
           count(*) FILTER (WHERE live AND state = 'awake' AND requested IS NULL) AS awake,
           count(*) FILTER (WHERE live AND state = 'error') AS broken
    FROM (SELECT state, requested, state <> 'offline'
                 AND seen_at > clock_timestamp() - make_interval(secs => :silent) AS live FROM worker) w""")

_COUNTED = 10_000
"""Ready tasks of one lane are counted so far: a count of a million says no more to a person."""


def rows(session: Session, statement: Any, **given: object) -> list[dict[str, Any]]:
    return [dict(row) for row in session.execute(statement, given).mappings()]


def tasks_now(session: Session) -> list[dict[str, Any]]:
    """What every slot has at the moment."""
    return rows(session, _TASKS, most=MOST)


def failing_chunks(session: Session) -> list[dict[str, Any]]:
    """Chunks that failed, in open jobs or within a day, and those whose tries did not all succeed."""
    return rows(session, _FAILING, most=MOST)


def queue(session: Session) -> tuple[dict[str, int], float | None]:
    """Ready tasks by kind, and the age of the oldest in seconds."""
    found = rows(session, _QUEUE, most_counted=_COUNTED)
    ages = [row["oldest"] for row in found if row["oldest"] is not None]
    return {str(row["kind"]): row["ready"] for row in found}, max(ages, default=None)


def shares(session: Session) -> list[dict[str, Any]]:
    """Each project's part of what runs, and its target by weight among those that run or wait."""
    found = rows(session, _SHARES, most=MOST, most_counted=_COUNTED)
    total = sum(row["running"] for row in found)
    weights = sum(row["weight"] for row in found if row["running"] or row["ready"])
    return [
        row
        | {
            "share": row["running"] / total if total else 0.0,
            "target": row["weight"] / weights if weights and (row["running"] or row["ready"]) else 0.0,
        }
        for row in found
    ]


def word(session: Session, running: int, waiting: Sequence[int], policy: Policy = DEFAULT) -> tuple[str, str]:
    """The farm in one word, and why it is that."""
    workers = session.execute(_WORKERS, {"silent": policy.worker_silent_seconds}).one()
    ready = sum(waiting)
    if not workers.live:
        return "inoperative", "No worker is connected."
    if running:
        return (
            "active",
            f"At work: {counted(running, 'task')} on {counted(workers.live, 'worker')}; ready and waiting: {ready}.",
        )
    if workers.broken == workers.live:
        return "inoperative", "Every worker is in trouble; `farm workers` says why."
    if not workers.awake:
        return "asleep", "Every worker is asleep, draining or told to leave."
    if ready:
        return "waiting", f"Nothing runs, though {counted(ready, 'task')} could; ask why at one of their jobs."
    return "idle", "Nothing is to be done."
