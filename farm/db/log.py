"""What happened and what must still be told: events, outbox, webhooks."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, ForeignKey, Index, String, text
from sqlalchemy.orm import Mapped, mapped_column

from farm.db.base import Base, Id, Made, Serial, empty_json, empty_list, state_column
from farm.db.enums import OutboxTopic


class Event(Base):
    """One change and its reason. Within one job, ids rise in the order of the commits, so a reader misses none."""

    __tablename__ = "event"
    __table_args__ = (Index("ix_event_job", "job_id", "id"), Index("ix_event_at", "at"))

    id: Mapped[Serial]
    job_id: Mapped[str | None] = mapped_column(ForeignKey("job.id", ondelete="CASCADE"))
    task_id: Mapped[str | None] = mapped_column(String(26))
    attempt_id: Mapped[str | None] = mapped_column(String(26))
    worker_id: Mapped[str | None] = mapped_column(String(64))
    kind: Mapped[str] = mapped_column(String(40))
    before: Mapped[str | None] = mapped_column(String(16))
    after: Mapped[str | None] = mapped_column(String(16))
    actor: Mapped[str] = mapped_column(String(200), server_default="farm")
    reason: Mapped[str] = mapped_column(server_default="")
    data: Mapped[dict[str, Any]] = empty_json()
    at: Mapped[Made]


class Outbox(Base):
    """A message that must be sent because a transaction committed. Sent rows are removed."""

    __tablename__ = "outbox"
    __table_args__ = (Index("ix_outbox_due", "due_at", "id"),)

    id: Mapped[Serial]
    topic: Mapped[OutboxTopic] = state_column(OutboxTopic)
    payload: Mapped[dict[str, Any]]
    tries: Mapped[int] = mapped_column(server_default="0")
    due_at: Mapped[Made]
    created_at: Mapped[Made]


class Webhook(Base):
    """Where a project wants to be told of events. `secret` signs the deliveries; `kinds` empty means all."""

    __tablename__ = "webhook"

    id: Mapped[Id]
    project_id: Mapped[str] = mapped_column(ForeignKey("project.id", ondelete="CASCADE"), index=True)
    url: Mapped[str]
    secret: Mapped[str]
    kinds: Mapped[list[str]] = empty_list()
    active: Mapped[bool] = mapped_column(server_default=text("true"))
    created_at: Mapped[Made]


class Delivery(Base):
    """One event on its way to one webhook; kept after it was delivered, so that it can be replayed."""

    __tablename__ = "delivery"
    __table_args__ = (
        Index("ix_delivery_due", "due_at", postgresql_where=text("delivered_at IS NULL AND given_up_at IS NULL")),
        Index("ix_delivery_webhook", "webhook_id", "id"),
    )

    id: Mapped[Serial]
    webhook_id: Mapped[str] = mapped_column(ForeignKey("webhook.id", ondelete="CASCADE"))
    event_id: Mapped[int] = mapped_column(BigInteger)
    kind: Mapped[str] = mapped_column(String(40))
    body: Mapped[dict[str, Any]]
    tries: Mapped[int] = mapped_column(server_default="0")
    due_at: Mapped[Made]
    delivered_at: Mapped[datetime | None]
    given_up_at: Mapped[datetime | None]
    answer: Mapped[str | None]
    created_at: Mapped[Made]
