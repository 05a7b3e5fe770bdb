"""A worker of the version before revision 0003: its statements, word for word, and nothing of the program of today.

It stands for every worker that still runs while the schema is brought up to date.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass

from sqlalchemy import text
from sqlalchemy.orm import Session

from farm.db.engine import Sessions, transact
from farm.db.ids import new_id

_RANK = text("""
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
        WHERE t.lane_id = l.id AND t.state = 'ready' AND NOT (CAST(:worker AS varchar) = ANY (t.avoid))
    AND NOT EXISTS (SELECT 1 FROM block b WHERE b.worker_id = :worker AND b.job_id = t.job_id AND b.kind = t.kind)
          AND t.job_id <> ALL (ARRAY(SELECT id FROM capped))
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
    LIMIT 32""")

_TAKE = text("""
    WITH picked AS (
        SELECT t.id FROM task t
        WHERE t.lane_id = :lane AND t.state = 'ready' AND NOT (CAST(:worker AS varchar) = ANY (t.avoid))
    AND NOT EXISTS (SELECT 1 FROM block b WHERE b.worker_id = :worker AND b.job_id = t.job_id AND b.kind = t.kind)
          AND t.job_id <> ALL (CAST(:capped AS varchar[]))
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
    FROM taken, made, beat""")

_LOCK_JOB = text("SELECT state, submitter_id, request FROM job WHERE id = :job FOR NO KEY UPDATE")

_QUICK = text("""
    WITH ended AS (
        UPDATE attempt SET state = 'done', ended_at = clock_timestamp(), frames_done = :frames,
               gpu_seconds = extract(epoch FROM clock_timestamp() - started_at),
               environment = environment || CAST(:environment AS jsonb)
        WHERE lease_token = :token AND task_id = :task AND state = 'running'
          AND EXISTS (SELECT 1 FROM chunk c WHERE c.task_id = :task AND c.last - c.first = :frames)
          AND EXISTS (SELECT 1 FROM task t WHERE t.job_id = :job AND t.kind = 'render' AND t.id <> :task
                      AND t.state IN ('waiting', 'ready', 'running', 'backoff', 'paused'))
        RETURNING id, task_id, worker_id, number, gpu_seconds),
    moved AS (
        UPDATE task SET state = 'done', reason = 'Done.', done_at = clock_timestamp()
        FROM ended WHERE task.id = ended.task_id RETURNING task.position),
    filled AS (
        UPDATE chunk SET attempt_id = ended.id, outputs = CAST(:outputs AS jsonb), report = CAST(:report AS jsonb)
        FROM ended WHERE chunk.task_id = ended.task_id RETURNING chunk.position),
    spent AS (
        UPDATE job SET gpu_seconds = job.gpu_seconds + ended.gpu_seconds
        FROM ended WHERE job.id = :job RETURNING job.id)
    SELECT ended.id, ended.worker_id, ended.number, ended.gpu_seconds, moved.position
    FROM ended, moved, filled, spent""")

_COUNT = text("""
    WITH p AS (
        UPDATE project SET running = project.running + :change FROM submitter s
        WHERE s.id = :id AND project.id = s.project_id)
    UPDATE submitter SET running = running + :change WHERE id = :id""")


@dataclass(frozen=True, slots=True)
class OldClaim:
    job_id: str
    task_id: str
    attempt_id: str
    token: str
    submitter_id: str
    position: int


class OldWorker:
    """Claims and finishes renders as that version did where there are no caps."""

    def __init__(self, sessions: Sessions, name: str) -> None:
        self._sessions = sessions
        self._name = name

    def claim(self) -> OldClaim | None:
        return transact(self._sessions, lambda session: self._claim(session))

    def _claim(self, session: Session) -> OldClaim | None:
        fit = {
            "worker": self._name, "kinds": ["render"], "tags": [], "exclusive": False, "vram_mb": 0, "models": None,
            "codecs": None,
        }  # fmt: skip
        for lane in session.execute(_RANK, fit).all():
            attempt, token = new_id(), secrets.token_urlsafe(24)
            taken = session.execute(
                _TAKE,
                {
                    "lane": lane.id, "capped": lane.capped, "attempt": attempt, "worker": self._name, "slot": 0,
                    "token": token, "reason": "A slot claimed it.", "lease": 30.0, "heartbeat": 2.0,
                    "per_second": 2000.0,
                },
            ).one_or_none()  # fmt: skip
            if taken is not None:
                session.execute(_COUNT, {"id": lane.submitter_id, "change": 1})
                return OldClaim(taken.job_id, taken.id, attempt, token, lane.submitter_id, taken.position)
        return None

    def finish(self, claim: OldClaim, frames: int) -> bool:
        """Whether it was accepted: not the last chunk of a job, which went another way."""
        return transact(self._sessions, lambda session: self._finish(session, claim, frames))

    def _finish(self, session: Session, claim: OldClaim, frames: int) -> bool:
        session.execute(_LOCK_JOB, {"job": claim.job_id}).one()
        out = {"review": {"key": f"chunk/{claim.attempt_id}", "sha256": "0" * 64, "size": 1, "facts": {}}}
        done = session.execute(
            _QUICK,
            {
                "job": claim.job_id, "task": claim.task_id, "token": claim.token, "frames": frames,
                "outputs": json.dumps(out), "report": "{}", "environment": "{}",
            },
        ).one_or_none()  # fmt: skip
        if done is None:
            return False
        session.execute(_COUNT, {"id": claim.submitter_id, "change": -1})
        return True
