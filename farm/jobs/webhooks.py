"""Telling other systems of job events: who wants to hear what, signatures, replays."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from urllib.parse import urlsplit

from sqlalchemy import delete, func, update
from sqlalchemy.orm import Session

from farm.db.engine import rows_changed
from farm.db.ids import new_id
from farm.db.tables import Delivery, Webhook
from farm.errors import InputError, NotFoundError
from farm.jobs import lanes


def add_webhook(session: Session, project: str, url: str, secret: str, kinds: Sequence[str] = ()) -> str:
    """Tell `url` of the project's job events from now on; the webhook's id. `kinds`: such as "job.state"; empty: all.

    InputError for a URL that is not http or https. Whether the host may be called is for the sender to check each time.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InputError("A webhook needs an http or https URL.", where="url", do="Give it with its scheme and host.")
    if len(secret) < 16:
        raise InputError("The webhook's secret is too short.", where="secret", do="Give at least 16 characters.")
    hook = Webhook(
        id=new_id(), project_id=lanes.project_id(session, project), url=url, secret=secret, kinds=list(kinds)
    )
    session.add(hook)
    return hook.id


def remove_webhook(session: Session, webhook_id: str) -> None:
    """Forget a webhook and its deliveries. NotFoundError when there is none."""
    if not rows_changed(session, delete(Webhook).where(Webhook.id == webhook_id)):
        raise NotFoundError("There is no such webhook.", where=f"webhook {webhook_id}")


def replay(session: Session, webhook_id: str, *, after_event: int = 0) -> int:
    """Deliver again what was delivered or given up, for events above `after_event`. Returns how many there are."""
    again = (
        update(Delivery)
        .where(Delivery.webhook_id == webhook_id, Delivery.event_id > after_event)
        .values(delivered_at=None, given_up_at=None, tries=0, due_at=func.clock_timestamp(), answer=None)
    )
    return rows_changed(session, again)


def signature(secret: str, moment: int, body: bytes) -> str:
    """`t=<unix seconds>,v1=<hex>`: HMAC-SHA256 of "<t>." and the body, so that neither can be changed or sent late."""
    digest = hmac.new(secret.encode(), f"{moment}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={moment},v1={digest}"
