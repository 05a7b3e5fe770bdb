"""Secrets under which workers register: made once and shown once, kept as a hash, revoked at once.

A farm asks for one from the moment its first key is made, for good: a revoked key must not open the door.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from pydantic import BaseModel, ConfigDict
from sqlalchemy import exists, func, or_, select, update
from sqlalchemy.orm import Session

from farm.db.enums import RequestedState, WorkerState
from farm.db.tables import Worker, WorkerKey
from farm.errors import ConflictError, NotFoundError, PolicyError
from farm.jobs import ledger
from farm.words import counted


class KeyView(BaseModel):
    """A key as it may be shown."""

    model_config = ConfigDict(frozen=True, from_attributes=True)

    name: str
    worker_id: str | None
    created_at: datetime
    used_at: datetime | None
    revoked_at: datetime | None


@dataclass(frozen=True, slots=True)
class NewKey:
    """`secret` is shown this once."""

    name: str
    secret: str


def digest_of(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def add_key(
    session: Session,
    name: str,
    *,
    actor: str,
    worker_id: str | None = None,
    make: Callable[[], str] = lambda: secrets.token_urlsafe(32),
) -> NewKey:
    """Make a key: for one worker where its id is given, else for a pool. ConflictError when the name is in use."""
    if session.scalar(select(WorkerKey.id).where(WorkerKey.name == name, WorkerKey.revoked_at.is_(None))):
        raise ConflictError(
            f"There is a key called {name!r}.", where="worker key", do="Revoke it first, or choose another name."
        )
    secret = make()
    session.add(WorkerKey(name=name, worker_id=worker_id, digest=digest_of(secret)))
    ledger.note(session, "worker.key", worker_id=worker_id, actor=actor, reason=f"Key {name} was made.")
    return NewKey(name, secret)


def ensure_key(session: Session, name: str, secret: str, *, actor: str) -> None:
    """Make known a secret that a deployment gave its own workers, unless it is known already."""
    known = select(WorkerKey.id).where(WorkerKey.digest == digest_of(secret))
    if session.scalar(known) is None:
        add_key(session, name, actor=actor, make=lambda: secret)


def revoke_key(session: Session, name: str, *, actor: str) -> int:
    """End a key: its workers get no more tasks, hand theirs back and end. Returns how many workers used it."""
    key = session.scalar(
        select(WorkerKey).where(WorkerKey.name == name, WorkerKey.revoked_at.is_(None)).with_for_update()
    )
    if key is None:
        raise NotFoundError(f"There is no key called {name!r}.", where="worker key", do="See `farm workers keys`.")
    key.revoked_at = func.clock_timestamp()
    workers = session.execute(
        update(Worker)
        .where(Worker.key_id == key.id, Worker.state != WorkerState.OFFLINE)
        .values(
            requested=RequestedState.OFFLINE, after_task=False, state=WorkerState.ERROR, reason="Its key was revoked."
        )
        .returning(Worker.id)
    ).all()
    for worker in workers:
        ledger.call(session, worker.id)
    ledger.note(
        session, "worker.key", actor=actor, reason=f"Key {name} was revoked; {counted(len(workers), 'worker')} used it."
    )
    return len(workers)


def keys(session: Session) -> list[KeyView]:
    """All keys, without their secrets, newest first."""
    rows = session.scalars(select(WorkerKey).order_by(WorkerKey.created_at.desc(), WorkerKey.id))
    return [KeyView.model_validate(row) for row in rows]


def admit(session: Session, worker_id: str, secret: str | None) -> str | None:
    """The id of the key under which the worker may register; None where this farm asks for none.

    PolicyError when it asks for one and the secret is none, unknown, revoked or another worker's.
    """
    if not session.scalar(select(exists().where(WorkerKey.id.is_not(None)))):
        return None
    key = session.scalar(
        select(WorkerKey).where(
            WorkerKey.digest == digest_of(secret or ""),
            WorkerKey.revoked_at.is_(None),
            or_(WorkerKey.worker_id.is_(None), WorkerKey.worker_id == worker_id),
        )
    )
    if key is None:
        raise PolicyError(
            "This farm takes registered workers only, and the worker's secret is not one of a live key.",
            where=f"worker {worker_id}",
            do="Make a key with `farm workers register NAME`, and give its secret as FARM_WORKER_SECRET.",
        )
    key.used_at = func.clock_timestamp()
    return key.id
