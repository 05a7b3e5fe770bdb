"""Budgets that warn, stop or cancel; webhooks that are signed, tried again and replayed."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping

import pytest
from sqlalchemy import func, select, update

from farm.db.engine import Sessions, transact
from farm.db.tables import Delivery, Project
from farm.errors import InputError, NotFoundError
from farm.jobs import JobState, Policy, webhooks
from farm.jobs.reconcile import BudgetKeeper, WebhookSender
from tests.integration.jobs.hands import Hands

SECRET = "a secret of some length"


def spend(sessions: Sessions, action: str, budget: float | None = 1.0) -> None:
    with sessions.begin() as session:
        session.execute(update(Project).values(gpu_seconds=10, budget_gpu_seconds=budget, budget_action=action))


@pytest.mark.parametrize(
    ("action", "state", "claims"),
    [("warn", JobState.QUEUED, True), ("stop", JobState.QUEUED, False), ("cancel", JobState.CANCELLED, False)],
)
def test_a_used_up_budget(sessions: Sessions, action: str, state: JobState, claims: bool) -> None:
    hands = Hands(sessions)
    job = hands.submit()
    keeper = BudgetKeeper(sessions)
    assert keeper.run_once() == 0
    spend(sessions, action)
    assert keeper.run_once() == (2 if action == "cancel" else 1)
    assert keeper.run_once() == 0
    assert hands.state(job) is state
    assert (hands.claim() is not None) is claims


def test_a_raised_budget_opens_the_project_again(sessions: Sessions) -> None:
    hands = Hands(sessions)
    hands.submit()
    spend(sessions, "stop")
    keeper = BudgetKeeper(sessions)
    keeper.run_once()
    spend(sessions, "stop", budget=None)
    assert keeper.run_once() == 1
    assert hands.claim() is not None


class Receiver:
    """Takes what is posted, and answers what it is told to."""

    def __init__(self) -> None:
        self.got: list[tuple[str, bytes, Mapping[str, str]]] = []
        self.status = 204

    def __call__(self, url: str, body: bytes, headers: Mapping[str, str]) -> int:
        self.got.append((url, body, headers))
        if self.status == 0:
            raise TimeoutError("no answer")
        return self.status


def hook(sessions: Sessions, *kinds: str) -> str:
    return transact(sessions, lambda s: webhooks.add_webhook(s, "default", "https://h.example/x", SECRET, kinds))


def test_events_are_delivered_signed_and_once(sessions: Sessions) -> None:
    hook(sessions, "job.state")
    hands, receiver = Hands(sessions), Receiver()
    job = hands.submit()
    hands.submit(project="other")
    hands.command("set_priority", job, priority=60)
    hands.command("cancel", job)
    sender = WebhookSender(sessions, receiver)
    assert sender.run_once() == 2
    assert sender.run_once() == 0
    bodies = [json.loads(body) for _, body, _ in receiver.got]
    assert [(b["job"], b["kind"], b["after"]) for b in bodies] == [
        (job, "job.state", "queued"),
        (job, "job.state", "cancelled"),
    ]
    _, body, headers = receiver.got[0]
    moment, _, digest = headers["Farm-Signature"].removeprefix("t=").partition(",v1=")
    assert digest == hmac.new(SECRET.encode(), f"{moment}.".encode() + body, hashlib.sha256).hexdigest()
    assert headers["Farm-Event"] == "job.state"


@pytest.mark.parametrize("status", [500, 0])
def test_a_failed_delivery_is_tried_again_and_then_given_up(sessions: Sessions, status: int) -> None:
    webhook, receiver = hook(sessions), Receiver()
    Hands(sessions).submit()
    receiver.status = status
    sender = WebhookSender(sessions, receiver, Policy(hook_limit=2))
    assert sender.run_once() == 1
    assert sender.run_once() == 0, "not before its pause is over"
    with sessions.begin() as session:
        session.execute(update(Delivery).values(due_at=func.clock_timestamp()))
    assert sender.run_once() == 1
    with sessions() as session:
        delivery = session.scalars(select(Delivery)).one()
        assert delivery.given_up_at is not None
        assert delivery.answer == ("HTTP 500" if status else "TimeoutError: no answer")
    receiver.status = 200
    assert transact(sessions, lambda s: webhooks.replay(s, webhook)) == 1
    assert sender.run_once() == 1
    with sessions() as session:
        assert session.scalars(select(Delivery.delivered_at)).one() is not None


def test_webhooks_are_checked_and_may_go(sessions: Sessions) -> None:
    with pytest.raises(InputError, match="http or https"):
        transact(sessions, lambda s: webhooks.add_webhook(s, "p", "file:///etc/passwd", SECRET))
    with pytest.raises(InputError, match="too short"):
        transact(sessions, lambda s: webhooks.add_webhook(s, "p", "https://h.example", "short"))
    webhook = hook(sessions)
    transact(sessions, lambda s: webhooks.remove_webhook(s, webhook))
    with pytest.raises(NotFoundError):
        transact(sessions, lambda s: webhooks.remove_webhook(s, webhook))
    Hands(sessions).submit()
    assert WebhookSender(sessions, Receiver()).run_once() == 0
