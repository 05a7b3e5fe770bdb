"""Who gets what: priority, shares, age, and what a slot can do."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from sqlalchemy import text, update

from farm import jobs
from farm.db.engine import Sessions, transact
from farm.db.tables import Project, Submitter
from farm.jobs import Policy, Slot, TaskKind
from farm.jobs.claim import claim, slot_json
from farm.jobs.policy import policy_json
from farm.jobs.reconcile import LaneCloser
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


def test_a_claim_that_looks_into_few_lanes_takes_what_one_that_looks_into_all_takes(sessions: Sessions) -> None:
    """`farm_take_1` looks into every lane. Weights, priorities and deadlines are drawn; what lanes promise is not kept.

    Once in a while the reconciler judges the lanes anew, some promise too much (as after a claim, or a change by a
    program of the version before), and the priority of a job is raised or lowered.
    """
    dice = random.Random(4)
    hands, submitted = Hands(sessions), list[str]()
    for number in range(12):
        due = {"deadline": f"2099-01-0{dice.randint(1, 9)}T00:00Z"} if dice.random() < 0.3 else {}
        submitted.append(
            hands.submit(project=f"p{number % 5}", owner=f"o{number % 3}", priority=dice.choice((40, 50, 90)), **due)
        )
        hands.plan(dice.randint(3, 6))
    with sessions.begin() as session:
        session.execute(text("UPDATE project SET weight = 1 + (length(id) + ascii(name)) % 3"))
    taken = 0
    while True:
        if dice.random() < 0.3:
            LaneCloser(sessions).run_once()
        if dice.random() < 0.2:
            wanted, job = dice.choice((10, 50, 70, 100)), dice.choice(submitted)
            transact(sessions, lambda s, job=job, wanted=wanted: jobs.set_priority(s, job, wanted, actor="t"))
        if dice.random() < 0.1:
            with sessions.begin() as session:
                session.execute(text("UPDATE lane SET top = 100 WHERE random() < 0.5"))
        firsts = [would_take(sessions, hands, version) for version in (1, 2)]
        assert firsts[0] == firsts[1]
        if firsts[0] is None:
            break
        assert hands.must_claim().lease.task_id == firsts[0]
        taken += 1
    assert taken > 40
    with sessions() as session:
        assert session.scalar(text("SELECT count(*) FROM task WHERE state = 'ready'")) == 0


def would_take(sessions: Sessions, hands: Hands, version: int) -> str | None:
    """The task that a claim by this function would give to the slot; it is not taken."""
    with sessions() as session:
        statement = "SELECT task FROM farm_take_1(%s::jsonb, %s::jsonb, 'a', 't', '')".replace("1", str(version))
        asked = slot_json(hands.slot), policy_json(Policy())
        row = session.connection().exec_driver_sql(statement, asked)
        found: str | None = row.scalar_one()
        session.rollback()
        return found


def test_the_reconciler_mends_what_a_program_of_the_version_before_let_a_lane_promise(sessions: Sessions) -> None:
    """Such a program makes tasks ready without a word on how urgent they are."""
    hands = Hands(sessions)
    urgent = hands.submit(project="a", priority=90)
    hands.submit(project="b", priority=50)
    with sessions.begin() as session:
        session.execute(text("UPDATE lane SET top = 10 FROM task t WHERE t.lane_id = lane.id AND t.priority = 90"))
    assert would_take(sessions, hands, 1) != would_take(sessions, hands, 2)
    LaneCloser(sessions).run_once()
    assert would_take(sessions, hands, 1) == would_take(sessions, hands, 2)
    assert hands.must_claim().job.id == urgent
