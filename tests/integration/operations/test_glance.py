"""The farm at a glance."""

from __future__ import annotations

import pytest

from farm.db.engine import Sessions, transact
from farm.db.enums import RequestedState
from farm.errors import ErrorClass
from farm.jobs import TaskKind, fleet
from farm.jobs.budgets import ProjectChange, change_project
from tests.integration.jobs.hands import Hands
from tests.integration.operations.conftest import Ask
from tests.integration.operations.test_fit import register


def test_the_farm_in_one_word(sessions: Sessions, api: Ask) -> None:
    hands = Hands(sessions)
    job = hands.submit()
    assert (api("GET", "/farm")["word"], api("GET", "/farm")["queue"]) == ("inoperative", {"plan": 1})
    register(sessions)
    assert api("GET", "/farm")["word"] == "waiting"
    claim = hands.must_claim()
    found = api("GET", "/farm")
    assert (found["word"], found["queue"], found["jobs"]) == ("active", {}, {"running": 1})
    (task,) = found["tasks"]
    assert (task["job"], task["kind"], task["worker"], task["attempt"]) == (job, "plan", "w1", claim.lease.attempt_id)
    hands.publish(claim, 0)
    hands.finish(claim, chunks=1)
    hands.work()
    assert api("GET", "/farm")["word"] == "idle"
    transact(sessions, lambda s: fleet.request_state(s, "w1", RequestedState.ASLEEP, actor="t"))
    assert api("GET", "/farm")["word"] == "asleep"


def test_failing_chunks_are_named_with_their_reason(sessions: Sessions, api: Ask) -> None:
    hands = Hands(sessions)
    job = hands.submit(title="Reel")
    hands.plan(20)
    hands.fail(hands.must_claim(TaskKind.RENDER), ErrorClass.UNKNOWN, "ValueError: it broke")
    (failing,) = api("GET", "/farm")["failing"]
    assert (failing["job"], failing["title"], failing["position"], failing["state"]) == (job, "Reel", 0, "ready")
    assert failing["reason"] == "ValueError: it broke. Try 1 of 3 failed."
    hands.work(chunks=20)
    assert api("GET", "/farm")["failing"] == []


def test_shares_stand_beside_what_the_weights_promise(sessions: Sessions, api: Ask) -> None:
    hands = Hands(sessions)
    for project in ("a", "b"):
        hands.submit(project=project)
    transact(sessions, lambda s: change_project(s, "a", ProjectChange(weight=3, budget_gpu_seconds=60), actor="t"))
    claim = hands.must_claim()
    shares = {row["name"]: row for row in api("GET", "/farm")["shares"]}
    first = claim.job.project
    assert (shares[first]["running"], shares[first]["share"]) == (1, 1.0)
    assert shares["a"]["target"] == pytest.approx(0.75)
    assert shares["b"]["target"] == pytest.approx(0.25)
    assert (shares["a"]["budget_gpu_seconds"], shares["a"]["budget_state"]) == (60, "open")
