"""Sees that ready work is known to be ready: ends pauses before a retry, repeats lost wake-ups, closes empty lanes."""

from __future__ import annotations

from functools import partial

from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from farm.db.engine import Sessions, transact
from farm.db.tables import Task
from farm.jobs import lanes, ledger, moves
from farm.jobs.policy import DEFAULT, Policy
from farm.jobs.states import TaskState

_MOST_WAKES = 64

_FORGOTTEN = text("""
    SELECT l.id,
        (SELECT count(*) FROM (SELECT 1 FROM task t WHERE t.lane_id = l.id AND t.state = 'ready' LIMIT :most) r)
        AS ready
    FROM lane l
    WHERE l.open AND l.woken_at < clock_timestamp() - make_interval(secs => :again)
      AND EXISTS (SELECT 1 FROM task t WHERE t.lane_id = l.id AND t.state = 'ready')
    LIMIT :batch FOR NO KEY UPDATE OF l SKIP LOCKED""")

_LOCK_QUIET = text("""
    SELECT l.id FROM lane l
    WHERE l.open AND l.woken_at < clock_timestamp() - make_interval(secs => :again)
      AND NOT EXISTS (SELECT 1 FROM task t WHERE t.lane_id = l.id AND t.state = 'ready')
    LIMIT :batch FOR NO KEY UPDATE OF l SKIP LOCKED""")

# a statement of its own: it sees what was committed while the locks above were waited for
_CLOSE = text("""
    UPDATE lane SET open = false WHERE id = ANY (:ids)
    AND NOT EXISTS (SELECT 1 FROM task t WHERE t.lane_id = lane.id AND t.state = 'ready') RETURNING id""")

# what a lane may hold at most; like `_CLOSE` judged by a statement of its own
_LOCK_MISJUDGED = text("""
    SELECT l.id FROM lane l
    WHERE l.open AND l.top <> (
        SELECT t.priority FROM task t WHERE t.lane_id = l.id AND t.state = 'ready'
        ORDER BY t.priority DESC, t.due, t.job_seq, t.position LIMIT 1)
    LIMIT :batch FOR NO KEY UPDATE OF l SKIP LOCKED""")

_JUDGE = text("""
    UPDATE lane SET top = coalesce((
        SELECT t.priority FROM task t WHERE t.lane_id = lane.id AND t.state = 'ready'
        ORDER BY t.priority DESC, t.due, t.job_seq, t.position LIMIT 1), top)
    WHERE id = ANY (:ids)""")


class BackoffEnder:
    """Makes tasks ready whose pause before the next try is over."""

    name = "backoff"

    def __init__(self, sessions: Sessions, policy: Policy = DEFAULT) -> None:
        self._sessions = sessions
        self._policy = policy

    def run_once(self) -> int:
        with self._sessions() as session:
            jobs = session.scalars(
                select(Task.job_id)
                .where(Task.state == TaskState.BACKOFF, Task.not_before <= func.clock_timestamp())
                .limit(self._policy.batch)
            ).all()
        return sum(transact(self._sessions, partial(self._end, job_id)) for job_id in sorted(set(jobs)))

    def _end(self, job_id: str, session: Session) -> int:
        job = moves.lock_job(session, job_id)
        over = Task.not_before <= func.clock_timestamp()
        return moves.move_tasks(
            session, job, [TaskState.BACKOFF], TaskState.READY, "The pause before its next try is over.", where=[over]
        )


class Waker:
    """Repeats the wake-up of lanes that have had ready tasks for a while: the message was lost, or nobody was free."""

    name = "waker"

    def __init__(self, sessions: Sessions, policy: Policy = DEFAULT) -> None:
        self._sessions = sessions
        self._policy = policy

    def run_once(self) -> int:
        return transact(self._sessions, self._pass)

    def _pass(self, session: Session) -> int:
        policy = self._policy
        lanes = session.execute(
            _FORGOTTEN, {"again": policy.wake_again_seconds, "batch": policy.batch, "most": _MOST_WAKES}
        ).all()
        for lane in lanes:
            ledger.wake(session, lane.id, lane.ready)
        return len(lanes)


class LaneCloser:
    """Keeps lanes as claims count on them: closed where nothing is ready, with the priority and wire of what is."""

    name = "lanes"

    def __init__(self, sessions: Sessions, policy: Policy = DEFAULT) -> None:
        self._sessions = sessions
        self._policy = policy

    def run_once(self) -> int:
        return transact(self._sessions, self._pass)

    def _pass(self, session: Session) -> int:
        policy = self._policy
        lanes.raise_merges(session)
        ids = session.scalars(_LOCK_QUIET, {"again": policy.wake_again_seconds, "batch": policy.batch}).all()
        if misjudged := session.scalars(_LOCK_MISJUDGED, {"batch": policy.batch}).all():
            session.execute(_JUDGE, {"ids": misjudged})
        return len(session.execute(_CLOSE, {"ids": ids}).all()) if ids else 0
