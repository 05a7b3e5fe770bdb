"""How far jobs are, by frames, and when they will be done, by the rates that were measured."""

from __future__ import annotations

import math
from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict
from sqlalchemy import and_, func, select, text
from sqlalchemy.orm import Session

from farm.db.tables import Attempt, Chunk, Task
from farm.jobs.states import AttemptState, TaskKind, TaskState

_RATES = 50


class JobProgress(BaseModel):
    """Frames of the plate, counted once each however many deliverables they go into.

    `fps` is what the running attempts do together, by the database's clock. `eta_seconds` is for what is left to
    render; `eta_error` is its standard error by how much the chunks' rates differ, None where too few are done.
    """

    model_config = ConfigDict(frozen=True)

    frames_done: int = 0
    frames_total: int | None = None
    chunks_done: int = 0
    chunks_failed: int = 0
    chunks_total: int = 0
    running: int = 0
    fps: float | None = None
    eta_seconds: float | None = None
    eta_error: float | None = None


def eta(frames_left: int, running: int, rates: list[float], now: float | None) -> tuple[float | None, float | None]:
    """Seconds until `frames_left` frames are rendered, and the standard error of that.

    Parameters
    ----------
    running: attempts at work.
    rates: frames a second of single attempts that have ended.
    now: frames a second of all running attempts together, None where it is not known yet.
    """
    if frames_left <= 0:
        return 0.0, 0.0
    if not running:
        return None, None
    mean = sum(rates) / len(rates) if rates else 0.0
    # ended chunks tell more than those that have just begun, whose models may still be loading
    rate = mean * running if mean else (now or 0.0)
    if not rate:
        return None, None
    seconds = frames_left / rate
    if len(rates) < 2 or not mean:
        return seconds, None
    spread = math.sqrt(sum((r - mean) ** 2 for r in rates) / (len(rates) - 1))
    return seconds, seconds * spread / mean / math.sqrt(len(rates))


def progress_of(session: Session, frames: Mapping[str, int | None]) -> dict[str, JobProgress]:
    """The progress of jobs; `frames` maps each job's id to its number of frames, None where it is not known yet."""
    ids = list(frames)
    if not ids:
        return {}
    done = Task.state == TaskState.DONE
    chunk_rows = {
        row.job_id: row
        for row in session.execute(
            select(
                Chunk.job_id,
                func.count().label("total"),
                func.count().filter(done).label("done"),
                func.count().filter(Task.state == TaskState.FAILED).label("failed"),
                func.coalesce(func.sum(Chunk.last - Chunk.first).filter(done), 0).label("frames"),
            )
            .join(Task, and_(Task.id == Chunk.task_id, Task.job_id == Chunk.job_id))
            .where(Chunk.job_id.in_(ids), Task.job_id.in_(ids))  # said twice, so that both sides use their index
            .group_by(Chunk.job_id)
        )
    }
    elapsed = func.extract("epoch", func.clock_timestamp() - Attempt.started_at)
    live_rows = {
        row.job_id: row
        for row in session.execute(
            select(
                Attempt.job_id,
                func.count().label("running"),
                func.sum(Attempt.frames_done).label("frames"),
                func.sum(Attempt.frames_done / func.greatest(elapsed, 0.001)).label("fps"),
            )
            .where(Attempt.job_id.in_(ids), Attempt.state == AttemptState.RUNNING, Attempt.kind == TaskKind.RENDER)
            .group_by(Attempt.job_id)
        )
    }
    rates = _rates(session, list(live_rows))
    return {
        job_id: _progress(total, chunk_rows.get(job_id), live_rows.get(job_id), rates.get(job_id, []))
        for job_id, total in frames.items()
    }


def _progress(total: int | None, chunks: object, live: object, rates: list[float]) -> JobProgress:
    frames = int(getattr(chunks, "frames", 0)) + int(getattr(live, "frames", 0))
    running = int(getattr(live, "running", 0))
    now = float(getattr(live, "fps", 0.0)) or None
    left, error = eta(total - frames, running, rates, now) if total is not None else (None, None)
    return JobProgress(
        frames_done=frames,
        frames_total=total,
        chunks_done=getattr(chunks, "done", 0),
        chunks_failed=getattr(chunks, "failed", 0),
        chunks_total=getattr(chunks, "total", 0),
        running=running,
        fps=now,
        eta_seconds=left,
        eta_error=error,
    )


# one short walk down an index for each job, however many attempts it has had
_LATEST = text("""
    SELECT wanted.id AS job_id, latest.rate
    FROM unnest(CAST(:ids AS text[])) AS wanted(id)
    CROSS JOIN LATERAL (
        SELECT a.frames_done / greatest(extract(epoch FROM a.ended_at - a.started_at), 0.001) AS rate
        FROM attempt a WHERE a.job_id = wanted.id AND a.kind = 'render' AND a.state = 'done'
          AND NOT a.environment ? 'reused'
        ORDER BY a.started_at DESC LIMIT :most) latest""")


def _rates(session: Session, ids: list[str]) -> dict[str, list[float]]:
    """Frames a second of the latest finished attempts of each job."""
    found: dict[str, list[float]] = {}
    for row in session.execute(_LATEST, {"ids": ids, "most": _RATES}) if ids else ():
        found.setdefault(row.job_id, []).append(float(row.rate))
    return found
