"""Sees that chunks wait for slots in which they fit, and for none that has gone."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from sqlalchemy import Row, text

from farm.db.engine import Sessions, transact
from farm.jobs.fit import fitting, refit
from farm.jobs.request import JobRequest

_SIGHT = text("""
    SELECT (SELECT max(told_at) FROM footprint) AS told, (
        SELECT jsonb_agg(DISTINCT jsonb_build_array(w.tags, s.vram_mb)) FROM worker w JOIN slot s ON s.worker_id = w.id
        WHERE w.state = 'awake' AND w.requested IS NULL AND EXISTS (SELECT FROM footprint)) AS slots""")

_OPEN = text("""
    SELECT j.id, j.request, l.vram_mb
    FROM job j JOIN task t ON t.job_id = j.id JOIN lane l ON l.id = t.lane_id
    WHERE j.state IN ('queued', 'running', 'awaiting_cast', 'paused') AND t.kind = 'render'
      AND t.state IN ('waiting', 'ready', 'backoff', 'paused')
    GROUP BY j.id, l.vram_mb ORDER BY j.id""")


class Refitter:
    """Moves chunks that wait to the lanes that `farm.jobs.fit` chooses, when a recipe was measured or slots have come
    or gone since. A look costs little while nothing of that has changed.
    """

    name = "fitting"

    def __init__(self, sessions: Sessions, *, every: float = 5.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._sessions, self._every, self._clock = sessions, every, clock
        self._next = clock()
        self._seen: Row[Any] | None = None

    def run_once(self) -> int:
        if self._clock() < self._next:
            return 0
        self._next = self._clock() + self._every
        with self._sessions() as session:
            sight = session.execute(_SIGHT).one()
            if sight.told is None or sight == self._seen:
                return 0
            needs: dict[tuple[str, tuple[str, ...], int], int] = {}
            wrong = []
            for row in session.execute(_OPEN):
                request = JobRequest.model_validate(row.request)
                alike = request.recipe.digest(), request.tags, request.vram_mb
                if alike not in needs:
                    needs[alike] = fitting(session, request).vram_mb
                if needs[alike] != row.vram_mb:
                    wrong.append(row.id)
        moved = sum(transact(self._sessions, partial(refit, job_id=job_id)) for job_id in dict.fromkeys(wrong))
        self._seen = sight
        return moved
