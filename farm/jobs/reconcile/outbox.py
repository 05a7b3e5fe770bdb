"""Sends what committed transactions want to be said. At least once: a message may be doubled, and that does no harm."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import structlog
from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from farm.db.base import seconds
from farm.db.engine import Sessions, transact
from farm.db.enums import OutboxTopic
from farm.db.tables import Outbox
from farm.jobs.request import canonical

_BATCH = 100  # sending happens inside the transaction, which must stay short

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Message:
    """What is sent. A wake-up's payload: kind, tags, vram_mb, models, codecs, count (of tasks that became ready)."""

    topic: OutboxTopic
    payload: dict[str, Any]


class OutboxDispatcher:
    """Hands due messages to `send` and removes them. Equal wake-ups of one pass become one with the sum of counts."""

    name = "outbox"

    def __init__(self, sessions: Sessions, send: Callable[[Message], None]) -> None:
        self._sessions = sessions
        self._send = send

    def run_once(self) -> int:
        return transact(self._sessions, self._pass)

    def _pass(self, session: Session) -> int:
        due = session.scalars(
            select(Outbox)
            .where(Outbox.due_at <= func.clock_timestamp())
            .order_by(Outbox.due_at, Outbox.id)
            .limit(_BATCH)
            .with_for_update(skip_locked=True)
        ).all()
        sent = 0
        for rows in _alike(list(due)):
            ids = [row.id for row in rows]
            payload = rows[0].payload | {"count": sum(row.payload.get("count", 1) for row in rows)}
            try:
                self._send(Message(rows[0].topic, payload))
            except Exception as error:  # whatever the broker's library raises: the rows stay and are sent later
                log.warning("message not sent; it stays in the outbox", topic=rows[0].topic.value, error=str(error))
                later = func.clock_timestamp() + seconds(min(2.0 ** max(row.tries for row in rows), 30.0))
                session.execute(update(Outbox).where(Outbox.id.in_(ids)).values(tries=Outbox.tries + 1, due_at=later))
            else:
                session.execute(delete(Outbox).where(Outbox.id.in_(ids)))
                sent += len(ids)
        return sent


def _alike(rows: list[Outbox]) -> list[list[Outbox]]:
    groups: dict[bytes, list[Outbox]] = defaultdict(list)
    for row in rows:
        groups[canonical([row.topic, row.payload | {"count": 0}])].append(row)
    return list(groups.values())
