"""What is worked on: lanes, tasks, chunks, attempts, blocks."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, Index, String, UniqueConstraint, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Mapped, mapped_column

from farm.db.base import Base, Id, Made, empty_json, empty_list, state_column
from farm.db.enums import AttemptState, TaskKind, TaskState


class Lane(Base):
    """All tasks of one submitter with the same needs.

    A claim looks at one head per lane instead of at every ready task, so work that this slot cannot do costs nothing.
    `wire`: the oldest claim format that holds what its tasks need.
    `open` is false only when the lane surely has no ready task; whoever makes one ready opens it under its row lock.
    `top`: no ready task of it has a higher priority; whoever makes one ready, or more urgent, sees to that likewise.
    """

    __tablename__ = "lane"
    __table_args__ = (
        UniqueConstraint("submitter_id", "kind", "tags", "vram_mb", "models", "codecs", "wire"),
        CheckConstraint("vram_mb >= 0", name="vram_mb"),
        Index("ix_lane_open", "kind", postgresql_where=text("open")),
    )

    id: Mapped[Id]
    submitter_id: Mapped[str] = mapped_column(ForeignKey("submitter.id"))
    kind: Mapped[TaskKind] = state_column(TaskKind)
    tags: Mapped[list[str]] = empty_list()
    vram_mb: Mapped[int] = mapped_column(server_default="0")
    models: Mapped[list[str]] = empty_list()
    codecs: Mapped[list[str]] = empty_list()
    wire: Mapped[int] = mapped_column(server_default=text("1"))
    open: Mapped[bool] = mapped_column(server_default=text("true"))
    top: Mapped[int] = mapped_column(server_default=text("100"))
    woken_at: Mapped[Made]


class Task(Base):
    """The one claimable thing. `position` is the chunk's index for a render task and 0 otherwise.

    `charged` counts failures that were the task's fault, `lost` the workers that died on it, `shrunk` the times it ran
    out of memory, `handed_back` those a worker gave back, `delayed` those that infrastructure spoilt. `avoid` lists
    workers that have failed it while others were there to try. `priority`, `due` (the deadline) and `job_seq` are the
    job's, kept here for the order of claims. The index `ix_task_ready` is for workers of the version before.
    """

    __tablename__ = "task"
    __table_args__ = (
        UniqueConstraint("job_id", "kind", "position"),
        CheckConstraint("position >= 0", name="position"),
        CheckConstraint("(state = 'backoff') = (not_before IS NOT NULL)", name="backoff"),
        Index(
            "ix_task_ready",
            "lane_id",
            text("priority DESC"),
            "job_seq",
            "position",
            postgresql_where=text("state = 'ready'"),
        ),
        Index(
            "ix_task_claim",
            "lane_id",
            text("priority DESC"),
            "due",
            "job_seq",
            "position",
            postgresql_where=text("state = 'ready'"),
        ),
        Index("ix_task_undone", "job_id", "kind", "state", postgresql_where=text("state <> 'done'")),
        Index("ix_task_backoff", "not_before", postgresql_where=text("state = 'backoff'")),
    )

    id: Mapped[Id]
    job_id: Mapped[str] = mapped_column(ForeignKey("job.id", ondelete="CASCADE"))
    lane_id: Mapped[str] = mapped_column(ForeignKey("lane.id"))
    kind: Mapped[TaskKind] = state_column(TaskKind)
    position: Mapped[int] = mapped_column(server_default="0")
    state: Mapped[TaskState] = state_column(TaskState)
    reason: Mapped[str] = mapped_column(server_default="")
    priority: Mapped[int]
    job_seq: Mapped[int] = mapped_column(BigInteger)
    due: Mapped[datetime | None]
    attempts: Mapped[int] = mapped_column(server_default="0")
    charged: Mapped[int] = mapped_column(server_default="0")
    lost: Mapped[int] = mapped_column(server_default="0")
    shrunk: Mapped[int] = mapped_column(server_default="0")
    handed_back: Mapped[int] = mapped_column(server_default="0")
    delayed: Mapped[int] = mapped_column(server_default="0")
    avoid: Mapped[list[str]] = mapped_column(ARRAY(String(64)), server_default=text("'{}'"))
    not_before: Mapped[datetime | None]
    ready_at: Mapped[datetime | None]
    done_at: Mapped[datetime | None]
    created_at: Mapped[Made]


class Chunk(Base):
    """Frames [first, last) of the plate, the segment that holds them, and the result that was accepted.

    `plan` is whatever the planner wants the renderer to know (context frames, the key of its part of the timeline);
    `outputs` maps a deliverable's name to its object. `as_is` says that a person accepted the plate's own frames;
    `by_decode` that it was planned by decoding (see Plate). `planned` is false from a requeue of the whole job until
    the plan has stored its segment again.
    """

    __tablename__ = "chunk"
    __table_args__ = (
        UniqueConstraint("job_id", "position"),
        CheckConstraint("first >= 0 AND last > first", name="frames"),
        CheckConstraint("(outputs IS NULL) = (attempt_id IS NULL)", name="accepted"),
    )

    task_id: Mapped[str] = mapped_column(ForeignKey("task.id", ondelete="CASCADE"), primary_key=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("job.id", ondelete="CASCADE"))
    position: Mapped[int]
    first: Mapped[int]
    last: Mapped[int]
    seconds: Mapped[float]
    segment_key: Mapped[str]
    segment_sha256: Mapped[str] = mapped_column(String(64))
    segment_size: Mapped[int] = mapped_column(BigInteger)
    plan: Mapped[dict[str, Any]] = empty_json()
    by_decode: Mapped[bool] = mapped_column(server_default=text("false"))
    as_is: Mapped[bool] = mapped_column(server_default=text("false"))
    fresh: Mapped[bool] = mapped_column(server_default=text("false"))
    planned: Mapped[bool] = mapped_column(server_default=text("true"))
    attempt_id: Mapped[str | None] = mapped_column(String(26))
    outputs: Mapped[dict[str, Any] | None]
    report: Mapped[dict[str, Any] | None]


class Attempt(Base):
    """One try at a task by one worker slot. The lease lives here: heartbeats touch this row only, and no index.

    `garbage`: what it stored is not wanted (any more); `cleaned_at` says when it was removed. `cause` is what its log
    says of its failure: which error, and where in the code.
    """

    __tablename__ = "attempt"
    __table_args__ = (
        UniqueConstraint("task_id", "number"),
        UniqueConstraint("lease_token"),
        Index("uq_attempt_running", "task_id", unique=True, postgresql_where=text("state = 'running'")),
        Index("ix_attempt_running_job", "job_id", postgresql_where=text("state = 'running'")),
        Index("ix_attempt_running_worker", "worker_id", postgresql_where=text("state = 'running'")),
        Index(
            "ix_attempt_garbage",
            "ended_at",
            postgresql_where=text("garbage AND cleaned_at IS NULL"),
        ),
        Index("ix_attempt_job", "job_id", "started_at"),
        CheckConstraint("(state = 'running') = (ended_at IS NULL)", name="ended"),
        {"postgresql_with": {"fillfactor": 70}},
    )

    id: Mapped[Id]
    task_id: Mapped[str] = mapped_column(ForeignKey("task.id", ondelete="CASCADE"))
    job_id: Mapped[str] = mapped_column(ForeignKey("job.id", ondelete="CASCADE"))
    kind: Mapped[TaskKind] = state_column(TaskKind)
    worker_id: Mapped[str] = mapped_column(String(64))
    slot: Mapped[int]
    number: Mapped[int]
    state: Mapped[AttemptState] = state_column(AttemptState, AttemptState.RUNNING)
    lease_token: Mapped[str] = mapped_column(String(64))
    lease_until: Mapped[datetime]
    started_at: Mapped[Made]
    beat_at: Mapped[Made]
    progress_at: Mapped[Made]
    ended_at: Mapped[datetime | None]
    frames_done: Mapped[int] = mapped_column(server_default="0")
    fps: Mapped[float | None]
    note: Mapped[str] = mapped_column(String(500), server_default="")
    error_class: Mapped[str | None] = mapped_column(String(16))
    error: Mapped[str | None]
    cause: Mapped[str | None]
    environment: Mapped[dict[str, Any]] = empty_json()
    gpu_seconds: Mapped[float] = mapped_column(server_default="0")
    garbage: Mapped[bool] = mapped_column(server_default=text("false"))
    cleaned_at: Mapped[datetime | None]


class Block(Base):
    """A worker that failed too many chunks of a job gets no more of that kind of its tasks until it is forgiven."""

    __tablename__ = "block"
    __table_args__ = (Index("ix_block_job", "job_id"),)

    worker_id: Mapped[str] = mapped_column(String(64), primary_key=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("job.id", ondelete="CASCADE"), primary_key=True)
    kind: Mapped[TaskKind] = mapped_column(state_column(TaskKind).column.type, primary_key=True)
    reason: Mapped[str]
    created_at: Mapped[Made]


class Fingerprint(Base):
    """What a render attempt's result is made of, as one hash: equal hashes, equal frames (`farm.worker.fingerprint`).

    `outputs` and `report` are those of a result that was accepted before a requeue; they are kept for as long as the
    job is open, so that what comes out the same need not be rendered again. An accepted result has its own in `chunk`.
    """

    __tablename__ = "fingerprint"
    __table_args__ = (
        Index("ix_fingerprint_digest", "digest"),
        Index("ix_fingerprint_job", "job_id"),
        Index("ix_fingerprint_kept", "job_id", postgresql_where=text("outputs IS NOT NULL")),
    )

    attempt_id: Mapped[str] = mapped_column(ForeignKey("attempt.id", ondelete="CASCADE"), primary_key=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("job.id", ondelete="CASCADE"))
    position: Mapped[int]
    digest: Mapped[str] = mapped_column(String(64))
    outputs: Mapped[dict[str, Any] | None]
    report: Mapped[dict[str, Any] | None]
