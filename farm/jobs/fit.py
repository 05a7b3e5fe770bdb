"""In which slots a job's chunks fit: by what was asked for, and by what its recipe was measured to need.

A claim compares one number, the lane's `vram_mb`. Here it is chosen: what the request says, or what the recipe was
measured to need where that is more, but no more than the largest slot there is has: that one then renders by its
processor, rather than nobody.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import func, select, text, true
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from farm.db.enums import TaskState, WorkerState
from farm.db.tables import Footprint, Job, SlotRow, Worker
from farm.jobs import ledger
from farm.jobs.request import JobRequest, Plain


class Measured(Plain):
    """One line of a worker's book; see `farm.db.fleet.Footprint`."""

    recipe: str
    card: str
    needs_mb: int
    seen_mb: int
    batch: int


def learn(session: Session, lines: Iterable[Measured]) -> None:
    """Keep what a worker has measured; what it said before of the same recipe and card is forgotten."""
    for line in sorted(lines, key=lambda line: (line.recipe, line.card)):
        told = line.model_dump() | {"told_at": func.clock_timestamp()}
        session.execute(
            insert(Footprint)
            .values(told)
            .on_conflict_do_update(index_elements=[Footprint.recipe, Footprint.card], set_=told)
        )


def fitting(session: Session, request: JobRequest) -> JobRequest:
    """The request with the GPU memory that slots must have which render its chunks, as things are now."""
    known = select(func.max(Footprint.needs_mb)).where(Footprint.recipe == request.recipe.digest())
    needs = session.scalar(known) or 0
    if needs > request.vram_mb:
        needs = min(needs, _largest(session, request.tags))
    return request.model_copy(update={"vram_mb": max(request.vram_mb, needs)})


def _largest(session: Session, tags: Iterable[str]) -> int:
    """The memory of the largest slot that takes work with these tags."""
    wanted = list(tags)
    able = (
        select(func.max(SlotRow.vram_mb))
        .join(Worker, Worker.id == SlotRow.worker_id)
        .where(
            Worker.state == WorkerState.AWAKE,
            Worker.requested.is_(None),
            Worker.tags.contains(wanted) if wanted else true(),
        )
    )
    return session.scalar(able) or 0


_LANE = "submitter_id, kind, tags, models, codecs, wire"
_OLD = """FROM task t JOIN lane l ON l.id = t.lane_id
    WHERE t.job_id = :job AND t.kind = 'render' AND t.state <> 'done' AND l.vram_mb <> :vram"""
_TWINS = text(f"""
    INSERT INTO lane (id, vram_mb, {_LANE})
    SELECT substr(md5(old.id || '/' || :vram), 1, 26), :vram, {_LANE} FROM (SELECT DISTINCT l.* {_OLD}) old
    ON CONFLICT DO NOTHING""")  # noqa: S608  # names of columns
_MOVE = text("""
    UPDATE task SET lane_id = twin.id FROM lane old JOIN lane twin ON twin.vram_mb = :vram
        AND (twin.submitter_id, twin.kind, twin.tags, twin.models, twin.codecs, twin.wire)
          = (old.submitter_id, old.kind, old.tags, old.models, old.codecs, old.wire)
    WHERE task.job_id = :job AND task.kind = 'render' AND task.state <> 'done'
      AND old.id = task.lane_id AND old.vram_mb <> :vram
    RETURNING task.lane_id, task.state""")


def refit(session: Session, job_id: str) -> int:
    """Move what is left to render of a job to lanes that ask for what it needs now; how many tasks were moved."""
    job = session.get(Job, job_id, with_for_update={"key_share": True})
    if job is None:
        return 0
    request = JobRequest.model_validate(job.request)
    asked: dict[str, Any] = {"job": job_id, "vram": fitting(session, request).vram_mb}
    session.execute(_TWINS, asked)
    moved = session.execute(_MOVE, asked).all()
    session.expire_all()
    for lane, state in moved:
        ledger.wake(session, lane, 1 if state == TaskState.READY else 0)
    if moved:
        reason = f"Its chunks go to slots with {asked['vram']} MB of GPU memory or more."
        ledger.note(session, "job.needs", job_id=job_id, reason=reason, data={"vram_mb": asked["vram"]})
    return len(moved)
