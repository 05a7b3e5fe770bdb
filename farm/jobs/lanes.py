"""Finding or making the rows that a task hangs on: project, submitter, lane."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import and_, or_, select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from farm.db.enums import TaskKind, TaskState
from farm.db.ids import new_id
from farm.db.tables import Lane, Project, Submitter
from farm.jobs import ledger
from farm.jobs.request import JobRequest
from farm.jobs.wire import FACES_WIRE, MERGE_WIRE

_ON_GPU = frozenset({TaskKind.CAST, TaskKind.RENDER})


def project_id(session: Session, name: str) -> str:
    """The id of the project called `name`, made on first use."""
    wanted = select(Project.id).where(Project.name == name)
    found = session.scalar(wanted)
    if found is None:
        session.execute(insert(Project).values(id=new_id(), name=name).on_conflict_do_nothing())
        found = session.scalars(wanted).one()
    return found


def people(session: Session, project: str, owner: str) -> tuple[str, str]:
    """The ids of the project called `project` and of `owner` within it, both made on first use."""
    wanted = (
        select(Project.id, Submitter.id)
        .join(Submitter, Submitter.project_id == Project.id)
        .where(Project.name == project, Submitter.owner == owner)
    )
    found = session.execute(wanted).one_or_none()
    if found is None:
        values = {"id": new_id(), "project_id": project_id(session, project), "owner": owner}
        session.execute(insert(Submitter).values(values).on_conflict_do_nothing())
        found = session.execute(wanted).one()
    return found[0], found[1]


def lane_id(
    session: Session, submitter: str, kind: TaskKind, request: JobRequest, *, codecs: Iterable[str] = ()
) -> str:
    """The id of the lane for a kind of task of such a request; see `lane_ids`.

    codecs: what this task needs besides those that the request names: the hardware encoders of its plan.
    """
    return lane_ids(session, submitter, [kind], request, codecs=codecs)[kind]


def lane_ids(
    session: Session, submitter: str, kinds: Sequence[TaskKind], request: JobRequest, *, codecs: Iterable[str] = ()
) -> dict[TaskKind, str]:
    """The ids of the lanes for kinds of tasks of such a request, made on first use.

    Only what runs networks needs memory, models, codecs.
    """
    needs = [_needs(submitter, kind, request, codecs) for kind in kinds]
    alike = or_(*(and_(*(getattr(Lane, name) == value for name, value in need.items())) for need in needs))
    wanted = select(Lane.kind, Lane.id).where(alike)
    found: dict[TaskKind, str] = dict(session.execute(wanted).all())
    if missing := [{"id": new_id(), "top": 0, **need} for need in needs if need["kind"] not in found]:
        session.execute(insert(Lane).values(missing).on_conflict_do_nothing())
        found = dict(session.execute(wanted).all())
    return found


def _needs(submitter: str, kind: TaskKind, request: JobRequest, codecs: Iterable[str]) -> dict[str, Any]:
    gpu = kind in _ON_GPU
    return {
        "submitter_id": submitter,
        "kind": kind,
        "tags": sorted(set(request.tags)),
        "vram_mb": request.vram_mb if gpu else 0,
        "models": sorted(set(request.models)) if gpu else [],
        "codecs": sorted({*request.codecs, *codecs}) if kind is TaskKind.RENDER else [],
        "wire": _wire(kind, request),
    }


def _wire(kind: TaskKind, request: JobRequest) -> int:
    if kind is TaskKind.MERGE:
        return MERGE_WIRE
    return FACES_WIRE if kind in _ON_GPU and request.needs_cast else 1


_TWINS = text("""
    WITH old AS (
        SELECT DISTINCT l.* FROM task t JOIN lane l ON l.id = t.lane_id
        WHERE t.job_id = :job AND t.kind = 'render' AND t.state <> 'done' AND l.wire < :wire),
    made AS (
        INSERT INTO lane (id, submitter_id, kind, tags, vram_mb, models, codecs, wire)
        SELECT substr(md5(old.id || :wire), 1, 26), submitter_id, kind, tags, vram_mb, models, codecs, :wire FROM old
        ON CONFLICT DO NOTHING)
    SELECT count(*) FROM old""")

_MOVE = text("""
    UPDATE task SET lane_id = twin.id FROM lane old JOIN lane twin ON twin.wire = :wire
        AND (twin.submitter_id, twin.kind, twin.tags, twin.vram_mb, twin.models, twin.codecs)
          = (old.submitter_id, old.kind, old.tags, old.vram_mb, old.models, old.codecs)
    WHERE task.job_id = :job AND task.kind = 'render' AND task.state <> 'done'
      AND old.id = task.lane_id AND old.wire < :wire""")


_RAISE_MERGES = text("""
    UPDATE lane old SET wire = :wire WHERE old.kind = 'merge' AND old.wire < :wire AND NOT EXISTS (
        SELECT FROM lane twin WHERE twin.wire = :wire
        AND (twin.submitter_id, twin.kind, twin.tags, twin.vram_mb, twin.models, twin.codecs)
          = (old.submitter_id, old.kind, old.tags, old.vram_mb, old.models, old.codecs))""")

_MOVE_MERGES = text("""
    UPDATE task SET lane_id = twin.id FROM job, lane old JOIN lane twin ON twin.wire = :wire
        AND (twin.submitter_id, twin.kind, twin.tags, twin.vram_mb, twin.models, twin.codecs)
          = (old.submitter_id, old.kind, old.tags, old.vram_mb, old.models, old.codecs)
    WHERE old.kind = 'merge' AND old.wire < :wire AND job.submitter_id = old.submitter_id
      AND job.state NOT IN ('completed', 'failed', 'cancelled') AND task.job_id = job.id AND task.kind = 'merge'
      AND task.state <> 'done' AND task.lane_id = old.id
    RETURNING task.lane_id, task.state""")


def raise_merges(session: Session) -> None:
    """Let no merge be given to a slot that cannot read the chunks of today.

    Programs of the version before make lanes that ask for less, before an upgrade and beside one. Such a lane is
    raised as it is; where its twin is there already, what is left to merge goes over to that.
    """
    asked = {"wire": MERGE_WIRE}
    session.execute(_RAISE_MERGES, asked)
    for lane, state in session.execute(_MOVE_MERGES, asked):
        ledger.wake(session, lane, 1 if state == TaskState.READY else 0)


def ask_for_wire(session: Session, job_id: str) -> None:
    """Move what is left to render of a locked job to lanes whose slots can read a cast of today.

    A job that was planned by the version before has its chunks in lanes that ask for less.
    """
    session.flush()
    asked = {"job": job_id, "wire": FACES_WIRE}
    if session.scalar(_TWINS, asked):
        session.execute(_MOVE, asked)
        session.expire_all()
