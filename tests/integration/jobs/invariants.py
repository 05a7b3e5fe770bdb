"""What must be true of the database at every moment at which no transaction is open, as SQL that finds the contrary."""

from __future__ import annotations

from sqlalchemy import text

from farm.db.engine import Sessions

ALWAYS = {
    "a running task has no running attempt": """
        SELECT id FROM task t WHERE state = 'running'
        AND NOT EXISTS (SELECT 1 FROM attempt a WHERE a.task_id = t.id AND a.state = 'running')""",
    "an attempt runs although its task does not": """
        SELECT a.id FROM attempt a JOIN task t ON t.id = a.task_id
        WHERE a.state = 'running' AND t.state <> 'running'""",
    "an attempt runs in an ended job": """
        SELECT a.id FROM attempt a JOIN job j ON j.id = a.job_id
        WHERE a.state = 'running' AND j.state IN ('completed', 'failed', 'cancelled', 'paused')""",
    "a project's count is wrong": """
        SELECT p.id FROM project p WHERE p.running <> (
            SELECT count(*) FROM attempt a JOIN job j ON j.id = a.job_id
            WHERE j.project_id = p.id AND a.state = 'running')""",
    "a submitter's count is wrong": """
        SELECT s.id FROM submitter s WHERE s.running <> (
            SELECT count(*) FROM attempt a JOIN job j ON j.id = a.job_id
            WHERE j.submitter_id = s.id AND a.state = 'running')""",
    "a project runs more than its cap": "SELECT id FROM project WHERE running > max_running",
    "a submitter runs more than the cap": "SELECT id FROM submitter WHERE running > max_running",
    "a job runs more than its cap": """
        SELECT j.id FROM job j WHERE j.max_running < (
            SELECT count(*) FROM attempt a WHERE a.job_id = j.id AND a.state = 'running')""",
    "a completed job lacks something": """
        SELECT j.id FROM job j WHERE state = 'completed' AND (
            NOT EXISTS (SELECT 1 FROM deliverable d WHERE d.job_id = j.id AND d.current)
            OR EXISTS (SELECT 1 FROM task t WHERE t.job_id = j.id AND t.state <> 'done')
            OR EXISTS (SELECT 1 FROM chunk c WHERE c.job_id = j.id AND c.outputs IS NULL))""",
    "a done chunk has no accepted result of a finished attempt": """
        SELECT t.id FROM task t JOIN chunk c ON c.task_id = t.id LEFT JOIN attempt a ON a.id = c.attempt_id
        WHERE t.state = 'done' AND (c.outputs IS NULL OR a.state IS DISTINCT FROM 'done')""",
    "a chunk has a result although it is not done": """
        SELECT t.id FROM task t JOIN chunk c ON c.task_id = t.id WHERE t.state <> 'done' AND c.outputs IS NOT NULL""",
    "an ended job has open work": """
        SELECT t.id FROM task t JOIN job j ON j.id = t.job_id
        WHERE j.state IN ('failed', 'cancelled') AND t.state IN ('waiting', 'ready', 'running', 'backoff', 'paused')""",
    "a halted job has claimable work": """
        SELECT t.id FROM task t JOIN job j ON j.id = t.job_id
        WHERE j.state IN ('pausing', 'paused', 'cancelling', 'waiting') AND t.state = 'ready'""",
    "ready work lies in a closed lane": """
        SELECT t.id FROM task t JOIN lane l ON l.id = t.lane_id WHERE t.state = 'ready' AND NOT l.open""",
    "a merge is open before its chunks are done": """
        SELECT m.id FROM task m JOIN job j ON j.id = m.job_id
        WHERE m.kind = 'merge' AND m.state IN ('ready', 'running', 'backoff', 'done') AND j.state <> 'cancelled'
        AND EXISTS (SELECT 1 FROM task t WHERE t.job_id = m.job_id AND t.kind = 'render' AND t.state <> 'done')""",
    "a job stands still": """
        SELECT j.id FROM job j WHERE j.state IN ('queued', 'running', 'merging', 'pausing', 'cancelling')
        AND NOT EXISTS (SELECT 1 FROM attempt a WHERE a.job_id = j.id AND a.state = 'running')
        AND NOT EXISTS (SELECT 1 FROM task t WHERE t.job_id = j.id AND t.state IN ('ready', 'backoff'))""",
    "an event has no reason": "SELECT id FROM event WHERE reason = ''",
}


AT_REST = {
    "a job is not final": "SELECT id FROM job WHERE state NOT IN ('completed', 'failed', 'cancelled')",
    "an attempt holds a lease": "SELECT id FROM attempt WHERE state = 'running'",
    "two chunks share one accepted attempt": """
        SELECT attempt_id FROM chunk WHERE attempt_id IS NOT NULL GROUP BY attempt_id HAVING count(*) > 1""",
    "the accepted attempt of a chunk is of another task": """
        SELECT c.task_id FROM chunk c JOIN attempt a ON a.id = c.attempt_id WHERE a.task_id <> c.task_id""",
    "two results of one chunk are kept": """
        SELECT task_id FROM attempt WHERE kind = 'render' AND state = 'done' AND NOT garbage
        GROUP BY task_id HAVING count(*) > 1""",
    "a completed job has two current deliverables of one name": """
        SELECT job_id FROM deliverable WHERE current GROUP BY job_id, name HAVING count(*) > 1""",
    "the chunks of a completed job do not cover its frames": """
        SELECT j.id FROM job j JOIN plate p ON p.job_id = j.id WHERE j.state = 'completed' AND p.frames <> (
            SELECT count(DISTINCT n) FROM chunk c, generate_series(c.first, c.last - 1) n WHERE c.job_id = j.id)
        OR EXISTS (SELECT 1 FROM chunk c, chunk d WHERE c.job_id = d.job_id AND c.position < d.position
                   AND d.first < c.last)""",
}


def broken(sessions: Sessions) -> list[str]:
    """The invariants that do not hold."""
    return _broken(sessions, ALWAYS)


def broken_at_rest(sessions: Sessions) -> list[str]:
    """What else must hold when every job has ended, and does not."""
    return _broken(sessions, AT_REST)


def _broken(sessions: Sessions, invariants: dict[str, str]) -> list[str]:
    with sessions() as session:
        return [name for name, sql in invariants.items() if session.execute(text(sql)).first() is not None]
