"""What was asked for and what came of it: batches, jobs, plates, identities, deliverables."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, Identity, Index, String, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from farm.db.base import Base, Id, Made, Serial, empty_json, empty_list, state_column
from farm.db.enums import JobState


class Batch(Base):
    """Jobs that were submitted together and are watched as one."""

    __tablename__ = "batch"
    __table_args__ = (UniqueConstraint("project_id", "name"),)

    id: Mapped[Id]
    project_id: Mapped[str] = mapped_column(ForeignKey("project.id"))
    name: Mapped[str] = mapped_column(String(200))
    created_at: Mapped[Made]


class Job(Base):
    """One plate to be rendered. `request` is the JobRequest as it was accepted, never changed but by a requeue.

    `mapping` is the decided mapping (opaque here), `cast_key` the object with the cast, `cast_members` what a page
    shows of it. `needs_cast` is false where the recipe changes no face. `seq` is the age order.
    `late_since`: when it was foreseen that the deadline will be missed. `max_attempts` is for each task, `max_retries`
    for all of them together. `delete_at`: when somebody asked that it be deleted.
    """

    __tablename__ = "job"
    __table_args__ = (
        CheckConstraint("priority BETWEEN 0 AND 100", name="priority"),
        CheckConstraint("chunk_seconds > 0", name="chunk_seconds"),
        CheckConstraint("max_running > 0", name="max_running"),
        CheckConstraint("max_attempts > 0", name="max_attempts"),
        Index(
            "uq_job_idempotency",
            "project_id",
            "idempotency_key",
            unique=True,
            postgresql_where=text("idempotency_key IS NOT NULL"),
        ),
        Index(
            "ix_job_open",
            "state",
            "seq",
            postgresql_where=text("state NOT IN ('completed', 'failed', 'cancelled')"),
        ),
        Index(
            "ix_job_capped",
            "id",
            postgresql_where=text("max_running IS NOT NULL AND state NOT IN ('completed', 'failed', 'cancelled')"),
        ),
        Index(
            "ix_job_deadline",
            "deadline",
            postgresql_where=text("deadline IS NOT NULL AND state NOT IN ('completed', 'failed', 'cancelled')"),
        ),
        Index("ix_job_project_seq", "project_id", "seq"),
        Index("ix_job_state_seq", "state", "seq"),
        Index("ix_job_batch", "batch_id", postgresql_where=text("batch_id IS NOT NULL")),
        Index("ix_job_delete", "delete_at", postgresql_where=text("delete_at IS NOT NULL")),
        Index("ix_job_finished", "finished_at", postgresql_where=text("finished_at IS NOT NULL")),
    )

    id: Mapped[Id]
    seq: Mapped[int] = mapped_column(BigInteger, Identity(), unique=True)
    project_id: Mapped[str] = mapped_column(ForeignKey("project.id"))
    submitter_id: Mapped[str] = mapped_column(ForeignKey("submitter.id"))
    batch_id: Mapped[str | None] = mapped_column(ForeignKey("batch.id"))
    state: Mapped[JobState] = state_column(JobState)
    reason: Mapped[str] = mapped_column(server_default="")
    title: Mapped[str] = mapped_column(String(200), server_default="")
    idempotency_key: Mapped[str | None] = mapped_column(String(200))
    request_digest: Mapped[str] = mapped_column(String(64))
    request: Mapped[dict[str, Any]]
    needs_cast: Mapped[bool]
    priority: Mapped[int] = mapped_column(server_default="50")
    tags: Mapped[list[str]] = empty_list()
    chunk_seconds: Mapped[float]
    max_running: Mapped[int | None]
    max_attempts: Mapped[int] = mapped_column(server_default="3")
    max_retries: Mapped[int | None]
    deadline: Mapped[datetime | None]
    late_since: Mapped[datetime | None]
    mapping: Mapped[dict[str, Any] | None]
    mapping_by: Mapped[str | None] = mapped_column(String(200))
    cast_key: Mapped[str | None]
    cast_members: Mapped[list[dict[str, Any]] | None]
    permit: Mapped[dict[str, Any] | None]
    consent: Mapped[dict[str, Any] | None]
    gpu_seconds: Mapped[float] = mapped_column(server_default="0")
    created_at: Mapped[Made]
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]
    delete_at: Mapped[datetime | None]


class Dependency(Base):
    """`job_id` starts only when `needs_id` has completed (`hard`) or has ended in any way."""

    __tablename__ = "dependency"
    __table_args__ = (CheckConstraint("job_id <> needs_id", name="other"), Index("ix_dependency_needs", "needs_id"))

    job_id: Mapped[str] = mapped_column(ForeignKey("job.id", ondelete="CASCADE"), primary_key=True)
    needs_id: Mapped[str] = mapped_column(ForeignKey("job.id", ondelete="CASCADE"), primary_key=True)
    hard: Mapped[bool] = mapped_column(server_default=text("true"))


class Plate(Base):
    """The video to be changed. `facts` is PlateFacts as JSON and `timeline_key` the whole Timeline, once planned.

    `by_decode`: its packets promised other frames than its decoder gives, so the timeline comes from a full decode.
    """

    __tablename__ = "plate"
    __table_args__ = (
        CheckConstraint("(object_key IS NULL) <> (uri IS NULL)", name="one_place"),
        Index("ix_plate_sha256", "sha256"),
    )

    job_id: Mapped[str] = mapped_column(ForeignKey("job.id", ondelete="CASCADE"), primary_key=True)
    object_key: Mapped[str | None]
    uri: Mapped[str | None]
    sha256: Mapped[str | None] = mapped_column(String(64))
    size: Mapped[int | None] = mapped_column(BigInteger)
    facts: Mapped[dict[str, Any] | None]
    timeline_key: Mapped[str | None]
    frames: Mapped[int | None]
    by_decode: Mapped[bool] = mapped_column(server_default=text("false"))


class IdentityRow(Base):
    """A face to be put in. `label` is the name by which the job's mapping speaks of it."""

    __tablename__ = "identity"
    __table_args__ = (UniqueConstraint("job_id", "label"),)

    id: Mapped[Id]
    job_id: Mapped[str] = mapped_column(ForeignKey("job.id", ondelete="CASCADE"))
    label: Mapped[str] = mapped_column(String(100))
    face: Mapped[int | None]


class IdentityPicture(Base):
    """One reference picture; `position` keeps the order in which they were given."""

    __tablename__ = "identity_picture"
    __table_args__ = (
        UniqueConstraint("identity_id", "position"),
        CheckConstraint("(object_key IS NULL) <> (uri IS NULL)", name="one_place"),
    )

    id: Mapped[Id]
    identity_id: Mapped[str] = mapped_column(ForeignKey("identity.id", ondelete="CASCADE"))
    position: Mapped[int]
    object_key: Mapped[str | None]
    uri: Mapped[str | None]
    sha256: Mapped[str] = mapped_column(String(64))


class Deliverable(Base):
    """A finished file. A requeue makes another; `current` marks the one that counts."""

    __tablename__ = "deliverable"
    __table_args__ = (
        Index("ix_deliverable_job", "job_id"),
        Index("uq_deliverable_current", "job_id", "name", unique=True, postgresql_where=text("current")),
        CheckConstraint("size >= 0", name="size"),
    )

    id: Mapped[Serial]
    job_id: Mapped[str] = mapped_column(ForeignKey("job.id", ondelete="CASCADE"))
    attempt_id: Mapped[str] = mapped_column(String(26))
    name: Mapped[str] = mapped_column(String(64))
    object_key: Mapped[str]
    size: Mapped[int] = mapped_column(BigInteger)
    sha256: Mapped[str] = mapped_column(String(64))
    facts: Mapped[dict[str, Any]] = empty_json()
    current: Mapped[bool] = mapped_column(server_default=text("true"))
    created_at: Mapped[Made]
