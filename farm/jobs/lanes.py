"""Finding or making the rows that a task hangs on: project, submitter, lane."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import and_, or_, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from farm.db.enums import TaskKind
from farm.db.ids import new_id
from farm.db.tables import Lane, Project, Submitter
from farm.jobs.request import JobRequest

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
    if missing := [{"id": new_id(), **need} for need in needs if need["kind"] not in found]:
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
    }
