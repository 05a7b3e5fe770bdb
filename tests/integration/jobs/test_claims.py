"""Who gets what: priority, shares, age, and what a slot can do."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from sqlalchemy import update

from farm.db.engine import Sessions
from farm.db.tables import Project, Submitter
from farm.jobs import Policy, Slot, TaskKind
from farm.jobs.claim import claim
from tests.integration.jobs.hands import Hands


def test_priority_then_age(sessions: Sessions) -> None:
    hands = Hands(sessions)
    old, new, urgent = hands.submit(), hands.submit(), hands.submit(priority=80)
    assert [hands.must_claim().job.id for _ in range(3)] == [urgent, old, new]


def test_within_a_job_what_unblocks_the_most_comes_first(sessions: Sessions) -> None:
    hands = Hands(sessions)
    first = hands.submit()
    hands.plan(1)
    second = hands.submit()
    assert (hands.must_claim().job.id, hands.must_claim().job.id) == (first, second)
    swap = hands.submit("swap")
    plan = hands.must_claim()
    hands.publish(plan, 0)
    hands.finish(plan, chunks=1)
    assert hands.must_claim().kind is TaskKind.CAST
    assert hands.claim() is None, swap


@pytest.mark.parametrize("by", [Project, Submitter])
def test_slots_are_shared_by_weight(sessions: Sessions, by: type) -> None:
    hands = Hands(sessions)
    for name in ("a", "b"):
        hands.submit(**({"project": name} if by is Project else {"owner": name}))
        hands.plan(12)
    with sessions.begin() as session:
        named = Project.name if by is Project else Submitter.owner
        session.execute(update(by).where(named == "b").values(weight=3))
    taken = Counter(hands.must_claim().job.id for _ in range(8))
    assert sorted(taken.values()) == [2, 6]


@pytest.mark.parametrize(
    ("asks", "cannot", "can"),
    [
        ({"tags": ["film"]}, {}, {"tags": ("film", "other")}),
        ({"vram_mb": 9000}, {"vram_mb": 8000}, {"vram_mb": 9000}),
        ({"models": ["big"]}, {"models": ("small",)}, {"models": ("small", "big")}),
        ({"models": ["big"]}, {"models": ()}, {"models": None}),
        ({"codecs": ["hevc"]}, {"codecs": ("h264",)}, {"codecs": ("hevc",)}),
        ({"tags": ["film"]}, {"tags": ("other",)}, {"tags": ("film",), "exclusive": True}),
        ({}, {"tags": ("film",), "exclusive": True}, {"tags": ("film",)}),
    ],
)
def test_only_what_fits_is_claimed(
    sessions: Sessions, asks: dict[str, Any], cannot: dict[str, Any], can: dict[str, Any]
) -> None:
    anyone = Hands(sessions, "plan", tags=tuple(asks.get("tags", ())))
    anyone.submit(**asks)
    anyone.plan(1)
    assert Hands(sessions, "a", **{"vram_mb": 10_000} | cannot).claim() is None
    assert Hands(sessions, "b", **{"vram_mb": 10_000} | can).must_claim().kind is TaskKind.RENDER


def test_work_that_does_not_fit_hides_none_that_does(sessions: Sessions) -> None:
    hands = Hands(sessions)
    hands.submit(priority=100, tags=["elsewhere"])
    mine = hands.submit(priority=1)
    assert hands.must_claim().job.id == mine


def test_heartbeats_grow_rarer_with_the_farm(sessions: Sessions) -> None:
    hands = Hands(sessions)
    hands.submit()
    with sessions.begin() as session:
        session.execute(update(Project).values(running=10_000))
        few = Policy(heartbeats_per_second=500)
        found = claim(session, Slot(worker_id="w"), few, token=lambda: "t")
        assert found is not None
        assert (found.lease.heartbeat_seconds, found.lease.seconds) == (20.0, 80.0)


def test_a_person_closes_a_projects_tap(sessions: Sessions) -> None:
    hands = Hands(sessions)
    hands.submit()
    with sessions.begin() as session:
        session.execute(update(Project).values(budget_state="stopped"))
    assert hands.claim() is None
