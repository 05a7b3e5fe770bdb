"""Delivers events to webhooks: at least once, signed, with growing pauses between tries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from farm.db.base import seconds
from farm.db.engine import Sessions, transact
from farm.db.tables import Delivery, Webhook
from farm.jobs.policy import DEFAULT, Policy
from farm.jobs.request import canonical
from farm.jobs.webhooks import signature

Post = Callable[[str, bytes, Mapping[str, str]], int]
"""Sends a body with headers to a URL, within a time limit of its own; the HTTP status. An exception is a failed try."""

_BATCH = 20
_WHILE_SENDING = 120.0


@dataclass(frozen=True, slots=True)
class _Due:
    id: int
    url: str
    secret: str
    kind: str
    body: bytes
    moment: int


class WebhookSender:
    """Posts what is due. A 2xx answer is a delivery; after `hook_limit` tries it is given up, and may be replayed."""

    name = "webhooks"

    def __init__(self, sessions: Sessions, post: Post, policy: Policy = DEFAULT) -> None:
        self._sessions = sessions
        self._post = post
        self._policy = policy

    def run_once(self) -> int:
        due = transact(self._sessions, self._take)
        for delivery in due:
            answer = self._try(delivery)
            transact(self._sessions, partial(self._note, delivery.id, answer))
        return len(due)

    def _take(self, session: Session) -> list[_Due]:
        """What is due now; nobody else sees it for a while, and if this process dies it is due again."""
        open_ones = Delivery.delivered_at.is_(None) & Delivery.given_up_at.is_(None)
        rows = session.execute(
            select(Delivery, Webhook.url, Webhook.secret, func.extract("epoch", func.clock_timestamp()))
            .join(Webhook, Webhook.id == Delivery.webhook_id)
            .where(open_ones, Delivery.due_at <= func.clock_timestamp(), Webhook.active)
            .order_by(Delivery.due_at)
            .limit(_BATCH)
            .with_for_update(of=Delivery, skip_locked=True)
        ).all()
        for delivery, *_ in rows:
            delivery.tries += 1
            delivery.due_at = func.clock_timestamp() + seconds(_WHILE_SENDING)
        return [_Due(d.id, url, secret, d.kind, canonical(d.body), int(now)) for d, url, secret, now in rows]

    def _try(self, due: _Due) -> str:
        """ "" when it was taken, else what went wrong."""
        headers = {
            "Content-Type": "application/json",
            "Farm-Delivery": str(due.id),
            "Farm-Event": due.kind,
            "Farm-Signature": signature(due.secret, due.moment, due.body),
        }
        try:
            status = self._post(due.url, due.body, headers)
        except Exception as error:  # whatever the HTTP library raises is a failed try
            return f"{type(error).__name__}: {error}"[:500]
        return "" if 200 <= status < 300 else f"HTTP {status}"

    def _note(self, delivery_id: int, answer: str, session: Session) -> None:
        delivery = session.get_one(Delivery, delivery_id, with_for_update=True)
        delivery.answer = answer
        now = func.clock_timestamp()
        if not answer:
            delivery.delivered_at = now
        elif delivery.tries >= self._policy.hook_limit:
            delivery.given_up_at = now
        else:
            pause = min(self._policy.hook_seconds * 2 ** (delivery.tries - 1), self._policy.hook_most)
            delivery.due_at = now + seconds(pause)
