"""Giving a task to a slot.

The order is: priority, then fair share of the project and of the submitter (live attempts with this one, over
weight), then age, then within a job whatever unblocks the most. A lane (all tasks of one submitter with the same
needs) is judged by its head, so the work that a slot cannot do costs it nothing; the task itself is taken with FOR
UPDATE SKIP LOCKED, so two claims never wait for each other and never get the same one. Caps are exact: a capped count
is looked at and raised under a lock. The order of shares may lag by the claims of the same instant.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

from sqlalchemy import Row, text
from sqlalchemy.orm import Session

from farm.db.engine import rows_changed
from farm.db.ids import new_id
from farm.jobs import ledger
from farm.jobs.moves import mark_started
from farm.jobs.payload import load_claim
from farm.jobs.policy import DEFAULT, Policy
from farm.jobs.states import AttemptState, TaskKind, TaskState
from farm.jobs.wire import Claim, Lease, Slot

_MAY_TAKE = """
    t.state = 'ready' AND NOT (CAST(:worker AS varchar) = ANY (t.avoid))
    AND NOT EXISTS (SELECT 1 FROM block b WHERE b.worker_id = :worker AND b.job_id = t.job_id AND b.kind = t.kind)"""

_RANK = text(f"""
    WITH capped AS MATERIALIZED (
        SELECT j.id FROM job j WHERE j.max_running IS NOT NULL AND j.state NOT IN ('completed', 'failed', 'cancelled')
        AND j.max_running <= (SELECT count(*) FROM attempt a WHERE a.job_id = j.id AND a.state = 'running'))
    SELECT l.id, l.submitter_id, ARRAY(SELECT id FROM capped) AS capped,
           p.max_running IS NOT NULL OR s.max_running IS NOT NULL AS capped_people,
           EXISTS (SELECT 1 FROM job j WHERE j.max_running IS NOT NULL
                   AND j.state NOT IN ('completed', 'failed', 'cancelled')) AS capped_jobs
    FROM lane l
    JOIN submitter s ON s.id = l.submitter_id
    JOIN project p ON p.id = s.project_id
    CROSS JOIN LATERAL (
        SELECT t.priority, t.job_seq FROM task t
        WHERE t.lane_id = l.id AND {_MAY_TAKE} AND t.job_id <> ALL (ARRAY(SELECT id FROM capped))
        ORDER BY t.priority DESC, t.job_seq, t.position LIMIT 1) head
    WHERE l.open AND l.kind = ANY (:kinds)
      AND l.tags <@ CAST(:tags AS varchar[]) AND (NOT :exclusive OR l.tags && CAST(:tags AS varchar[]))
      AND l.vram_mb <= :vram_mb
      AND (CAST(:models AS varchar[]) IS NULL OR l.models <@ CAST(:models AS varchar[]))
      AND (CAST(:codecs AS varchar[]) IS NULL OR l.codecs <@ CAST(:codecs AS varchar[]))
      AND p.budget_state <> 'stopped'
      AND (p.max_running IS NULL OR p.running < p.max_running)
      AND (s.max_running IS NULL OR s.running < s.max_running)
      AND NOT EXISTS (
        SELECT 1 FROM worker w WHERE w.id = :worker
        AND (w.state IN ('asleep', 'draining', 'offline', 'error') OR w.requested IN ('asleep', 'offline', 'restart')))
    ORDER BY head.priority DESC, (p.running + 1) / p.weight, (s.running + 1) / s.weight, head.job_seq,
             CASE l.kind WHEN 'merge' THEN 0 WHEN 'plan' THEN 1 WHEN 'cast' THEN 2 ELSE 3 END
    LIMIT 32""")  # noqa: S608  (only the constant above is put in)

# The commit of a claim is not waited for on the disk: a crash of the server that loses it loses a lease, which the
# attempt hears of with its next report, and nothing else.
_TAKE = text(f"""
    WITH picked AS (
        SELECT t.id FROM task t
        WHERE t.lane_id = :lane AND {_MAY_TAKE} AND t.job_id <> ALL (CAST(:capped AS varchar[]))
        ORDER BY t.priority DESC, t.job_seq, t.position LIMIT 1
        FOR NO KEY UPDATE SKIP LOCKED),
    taken AS (
        UPDATE task SET state = 'running', attempts = attempts + 1, reason = :reason
        FROM picked WHERE task.id = picked.id
        RETURNING task.id, task.job_id, task.kind, task.position, task.attempts, task.shrunk),
    beat AS (SELECT :heartbeat * greatest(1.0, sum(running) / (:per_second * :heartbeat)) AS seconds FROM project),
    made AS (
        INSERT INTO attempt (id, task_id, job_id, kind, worker_id, slot, number, state, lease_token, lease_until)
        SELECT :attempt, id, job_id, kind, :worker, :slot, attempts, 'running', :token,
               clock_timestamp() + make_interval(secs => greatest(:lease, 4 * seconds)) FROM taken, beat
        RETURNING lease_until)
    SELECT taken.*, made.lease_until, beat.seconds, set_config('synchronous_commit', 'off', true)
    FROM taken, made, beat""")  # noqa: S608

_COUNT = text("""
    WITH p AS (
        UPDATE project SET running = project.running + 1 FROM submitter s
        WHERE s.id = :id AND project.id = s.project_id
          AND (project.max_running IS NULL OR project.running < project.max_running)
        RETURNING project.id)
    UPDATE submitter SET running = running + 1
    WHERE id = :id AND (max_running IS NULL OR running < max_running) AND EXISTS (SELECT 1 FROM p)""")

_JOB_HAS_ROOM = text("""
    SELECT j.max_running IS NULL
        OR j.max_running >= (SELECT count(*) FROM attempt a WHERE a.job_id = j.id AND a.state = 'running')
    FROM job j WHERE j.id = :job""")


def claim(
    session: Session,
    slot: Slot,
    policy: Policy = DEFAULT,
    *,
    token: Callable[[], str] = lambda: secrets.token_urlsafe(24),
) -> Claim | None:
    """The most urgent task that the slot may do, with a lease; None when there is none. One transaction.

    Commit before any work is begun: the lease counts from the claim. A claim whose answer was lost costs nothing but
    the lease's time.
    """
    fit: dict[str, Any] = {
        "worker": slot.worker_id,
        "kinds": [str(kind) for kind in slot.kinds],
        "tags": list(slot.tags),
        "exclusive": slot.exclusive,
        "vram_mb": slot.vram_mb,
        "models": None if slot.models is None else list(slot.models),
        "codecs": None if slot.codecs is None else list(slot.codecs),
    }
    for lane in session.execute(_RANK, fit).all():
        found = _take(session, slot, lane, policy, token())
        if found is not None:
            return found
    return None


def _take(session: Session, slot: Slot, lane: Row[Any], policy: Policy, token: str) -> Claim | None:
    # only where there are caps may a task have to be given back, so only there a savepoint is paid for
    savepoint = session.begin_nested() if lane.capped_people or lane.capped_jobs else None
    attempt_id = new_id()
    taken = session.execute(
        _TAKE,
        {
            "lane": lane.id,
            "capped": lane.capped,
            "attempt": attempt_id,
            "worker": slot.worker_id,
            "slot": slot.number,
            "token": token,
            "reason": "A slot claimed it.",
            "lease": policy.lease_seconds,
            "heartbeat": policy.heartbeat_seconds,
            "per_second": policy.heartbeats_per_second,
        },
    ).one_or_none()
    if savepoint is not None:
        if taken is None or not _within_caps(session, lane, taken.job_id):
            savepoint.rollback()
            return None
        savepoint.commit()
    if taken is None:
        return None
    if not lane.capped_people:
        ledger.count(session, lane.submitter_id, 1)
    return _hand_over(session, slot, taken, attempt_id, token, policy)


def _within_caps(session: Session, lane: Row[Any], job_id: str) -> bool:
    """Whether the caps still allow the attempt; raises the capped counts if so."""
    ledger.lock_events(session, job_id)  # one claim of the job at a time from here on
    if not session.scalar(_JOB_HAS_ROOM, {"job": job_id}):
        return False
    return not lane.capped_people or rows_changed(session, _COUNT, {"id": lane.submitter_id}) == 1


def _hand_over(session: Session, slot: Slot, taken: Row[Any], attempt_id: str, token: str, policy: Policy) -> Claim:
    seconds = float(taken.seconds)
    lease = Lease(
        token=token,
        job_id=taken.job_id,
        task_id=taken.id,
        attempt_id=attempt_id,
        until=taken.lease_until,
        seconds=max(policy.lease_seconds, 4 * seconds),
        heartbeat_seconds=seconds,
    )
    if taken.kind == TaskKind.PLAN:
        mark_started(session, lease.job_id)
    ledger.note(
        session,
        "attempt.state",
        job_id=taken.job_id,
        task_id=taken.id,
        attempt_id=attempt_id,
        worker_id=slot.worker_id,
        after=AttemptState.RUNNING,
        reason="A slot claimed it.",
        data={
            "kind": taken.kind,
            "position": taken.position,
            "number": taken.attempts,
            "slot": slot.number,
            "task": [TaskState.READY.value, TaskState.RUNNING.value],
        },
    )
    return load_claim(session, slot, lease, taken)
