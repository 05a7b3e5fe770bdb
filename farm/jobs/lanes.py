"""Finding or making the rows that a task hangs on: project, submitter, lane."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import select
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


def submitter_id(session: Session, project: str, owner: str) -> str:
    """The id of `owner` within the project (an id), made on first use."""
    wanted = select(Submitter.id).where(Submitter.project_id == project, Submitter.owner == owner)
    found = session.scalar(wanted)
    if found is None:
        values = {"id": new_id(), "project_id": project, "owner": owner}
        session.execute(insert(Submitter).values(values).on_conflict_do_nothing())
        found = session.scalars(wanted).one()
    return found


def lane_id(
    session: Session, submitter: str, kind: TaskKind, request: JobRequest, *, codecs: Iterable[str] = ()
) -> str:
    """The id of the lane for a kind of task of such a request. Only what runs networks needs memory, models, codecs.

    codecs: what this task needs besides those that the request names: the hardware encoders of its plan.
    """
    gpu = kind in _ON_GPU
    needs = {
        "submitter_id": submitter,
        "kind": kind,
        "tags": sorted(set(request.tags)),
        "vram_mb": request.vram_mb if gpu else 0,
        "models": sorted(set(request.models)) if gpu else [],
        "codecs": sorted({*request.codecs, *codecs}) if kind is TaskKind.RENDER else [],
    }
    wanted = select(Lane.id).filter_by(**needs)
    found = session.scalar(wanted)
    if found is None:
        session.execute(insert(Lane).values(id=new_id(), **needs).on_conflict_do_nothing())
        found = session.scalars(wanted).one()
    return found
