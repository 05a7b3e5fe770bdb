"""Who works: workers and their slots."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import CheckConstraint, ForeignKey, Index, String, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from farm.db.base import Base, Id, Made, empty_json, empty_list, state_column
from farm.db.enums import RequestedState, WorkerState


class Worker(Base):
    """A machine's worker process. `state` is what it says it is, `requested` what an operator wants it to become.

    `after_task`: the wish may wait until the current task has ended. `capabilities` holds GPUs, providers, encoders,
    versions as the worker measured them. `wire` is the newest claim format that it understands. `key_id`: the key under
    which it registered, where the farm asks for one.
    """

    __tablename__ = "worker"
    __table_args__ = (Index("ix_worker_live", "seen_at", postgresql_where=text("state <> 'offline'")),)

    id: Mapped[str] = mapped_column(String(64), primary_key=True)
    name: Mapped[str] = mapped_column(String(200))
    state: Mapped[WorkerState] = state_column(WorkerState, WorkerState.STARTING)
    reason: Mapped[str] = mapped_column(server_default="")
    requested: Mapped[RequestedState | None] = state_column(RequestedState)
    after_task: Mapped[bool] = mapped_column(server_default=text("true"))
    tags: Mapped[list[str]] = empty_list()
    capabilities: Mapped[dict[str, Any]] = empty_json()
    rate: Mapped[float | None]
    version: Mapped[str] = mapped_column(String(64), server_default="")
    wire: Mapped[int] = mapped_column(server_default="1")
    key_id: Mapped[str | None] = mapped_column(ForeignKey("worker_key.id"))
    started_at: Mapped[Made]
    seen_at: Mapped[Made]


class SlotRow(Base):
    """One child process of a worker and the memory that it may use."""

    __tablename__ = "slot"
    __table_args__ = (CheckConstraint("vram_mb >= 0", name="vram_mb"),)

    worker_id: Mapped[str] = mapped_column(ForeignKey("worker.id", ondelete="CASCADE"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    device: Mapped[str] = mapped_column(String(100), server_default="cpu")
    vram_mb: Mapped[int] = mapped_column(server_default="0")
    kinds: Mapped[list[str]] = empty_list()
    models: Mapped[list[str] | None]
    codecs: Mapped[list[str] | None]


class Footprint(Base):
    """GPU memory that a slot needs for a recipe, as a worker with a model of card has measured it, MiB.

    `needs_mb`: with the smallest batch, worked out from `seen_mb`, the most that a slot was seen to use with batches of
    `batch`; where it does not fit there at all, one more than such a card has for it.
    """

    __tablename__ = "footprint"

    recipe: Mapped[str] = mapped_column(String(64), primary_key=True)
    card: Mapped[str] = mapped_column(String(100), primary_key=True)
    needs_mb: Mapped[int]
    seen_mb: Mapped[int]
    batch: Mapped[int]
    told_at: Mapped[Made]


class WorkerKey(Base):
    """A secret under which workers register. Only its sha256 is kept; the secret is random, so that is enough.

    `worker_id`: the one worker that may use it; None: any of a pool may.
    """

    __tablename__ = "worker_key"
    __table_args__ = (
        Index("uq_worker_key_live", "name", unique=True, postgresql_where=text("revoked_at IS NULL")),
        UniqueConstraint("digest"),
    )

    id: Mapped[Id]
    name: Mapped[str] = mapped_column(String(64))
    worker_id: Mapped[str | None] = mapped_column(String(64))
    digest: Mapped[str] = mapped_column(String(64))
    created_at: Mapped[Made]
    used_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]


class Schedule(Base):
    """When workers are awake. `target` is "worker:<id>" or "tag:<tag>" (a pool); a worker's own goes before its pool's.

    `windows` are `farm.jobs.schedules.Window` as JSON, in the local time of `zone` (an IANA name).
    """

    __tablename__ = "schedule"

    target: Mapped[str] = mapped_column(String(80), primary_key=True)
    zone: Mapped[str] = mapped_column(String(64))
    windows: Mapped[list[dict[str, Any]]]
    created_at: Mapped[Made]
