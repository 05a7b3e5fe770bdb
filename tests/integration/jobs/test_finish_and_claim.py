"""The end of a chunk and the next claim in one transaction: the worker's usual step."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection, event, func, select, text, update

from farm import jobs
from farm.db import engine
from farm.db.engine import Sessions
from farm.db.tables import Attempt, Job, Project, Submitter, Task
from farm.errors import StaleLeaseError
from farm.jobs import AttemptState, JobState, Policy, TaskKind, TaskState, views
from farm.worker.control import Control
from tests.integration.jobs.hands import Hands, out
from tests.integration.jobs.invariants import broken
from tests.integration.jobs.test_races import together


def running(sessions: Sessions, project: str) -> int | None:
    with sessions() as session:
        return session.scalar(select(Project.running).where(Project.name == project))


def test_one_step_ends_a_chunk_and_takes_the_next(sessions: Sessions) -> None:
    hands = Hands(sessions)
    job = hands.submit()
    hands.plan(3)
    first = hands.must_claim()
    followed = hands.go_on(first)
    assert followed.asked
    assert followed.claim is not None
    assert (followed.claim.position, followed.claim.number) == (1, 1)
    assert followed.claim.job == first.job
    assert hands.beat(followed.claim).alive
    assert running(sessions, "default") == 1
    with sessions() as session:
        told = [(e.kind, e.before, e.after) for e in views.events_after(session, job)][-3:]
    assert told == [
        ("attempt.state", "running", "done"),
        ("render.state", "running", "done"),
        ("attempt.state", None, "running"),
    ]
    assert broken(sessions) == []


def test_the_claim_is_the_same_as_by_itself(sessions: Sessions) -> None:
    hands = Hands(sessions)
    hands.submit("swap", title="x", options={"a": 1})
    hands.plan(3)
    hands.finish(hands.must_claim(TaskKind.CAST), mapping={"m1": "hero"})
    followed = hands.go_on(hands.must_claim())
    assert followed.claim is not None
    hands.fail(followed.claim, "interrupted")
    alone = hands.must_claim()
    assert alone.model_copy(update={"lease": None, "number": 0}) == followed.claim.model_copy(
        update={"lease": None, "number": 0}
    )
    assert alone.mapping == {"m1": "hero"}


def test_the_last_chunk_goes_the_careful_way_and_opens_the_merge(sessions: Sessions) -> None:
    hands = Hands(sessions)
    hands.submit()
    hands.plan(1)
    assert hands.go_on(hands.must_claim()) == jobs.Followed(None, asked=False)
    assert hands.must_claim().kind is TaskKind.MERGE


def test_a_slot_that_nothing_waits_for_need_not_ask_again(sessions: Sessions) -> None:
    hands, other = Hands(sessions), Hands(sessions, "w2")
    hands.submit()
    hands.plan(2)
    mine, _ = hands.must_claim(), other.must_claim()
    assert hands.go_on(mine) == jobs.Followed(None, asked=True)


@pytest.mark.parametrize("cap", ["job", "project", "owner"])
def test_caps_are_claimed_under_by_themselves(sessions: Sessions, cap: str) -> None:
    hands = Hands(sessions)
    hands.submit(owner="me", **({"max_running": 1} if cap == "job" else {}))
    hands.plan(3)
    with sessions.begin() as session:
        if cap != "job":
            session.execute(update(Project if cap == "project" else Submitter).values(max_running=1))
    claim = hands.must_claim()
    assert Hands(sessions, "w2").claim() is None
    assert hands.go_on(claim) == jobs.Followed(None, asked=False)
    assert hands.must_claim().position == 1
    assert Hands(sessions, "w2").claim() is None
    assert broken(sessions) == []


def test_a_capped_job_leaves_the_others_their_quick_way(sessions: Sessions) -> None:
    hands = Hands(sessions)
    hands.submit()
    hands.plan(3)
    hands.submit(max_running=1, priority=1)
    followed = hands.go_on(hands.must_claim())
    assert followed.claim is not None
    assert followed.claim.position == 1


def test_the_attempt_that_ends_does_not_count_against_its_project(sessions: Sessions) -> None:
    hands, other = Hands(sessions), Hands(sessions, "w2")
    hands.submit(project="old")
    hands.plan(3)
    new = hands.submit(project="new")
    hands.plan(3)
    others = other.must_claim()
    mine = hands.must_claim()
    assert (others.job.project, mine.job.project) == ("old", "new")
    followed = hands.go_on(mine)
    assert followed.claim is not None
    assert followed.claim.job.id == new, "one attempt each is the fair share"


def test_a_stale_end_claims_nothing(sessions: Sessions) -> None:
    hands = Hands(sessions)
    job = hands.submit()
    hands.plan(3)
    claim = hands.must_claim()
    hands.command("requeue", job, what=claim.position)
    with pytest.raises(StaleLeaseError):
        hands.go_on(claim)
    assert running(sessions, "default") == 0
    assert hands.tasks(job, TaskKind.RENDER) == [TaskState.READY] * 3


def test_a_paused_job_takes_the_result_and_gives_nothing(sessions: Sessions) -> None:
    hands = Hands(sessions)
    job = hands.submit()
    hands.plan(3)
    claim = hands.must_claim()
    hands.command("pause", job)
    assert hands.go_on(claim) == jobs.Followed(None, asked=False)
    assert hands.state(job) is JobState.PAUSED
    assert hands.claim() is None


@pytest.mark.parametrize("done", [True, False])
def test_an_answer_that_was_lost_costs_no_task_anything(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch, done: bool
) -> None:
    """The commit happened unseen, and gave the slot a task that it never heard of; or it did not happen."""
    hands = Hands(sessions)
    hands.submit()
    hands.plan(4)
    control = Control(sessions, Policy(), sleep=lambda _: None)
    first = hands.must_claim()
    ask_once, asked = engine.ask_once, list[str]()

    def lose(*arguments: Any) -> Any:
        asked.append(arguments[1])
        if done:
            ask_once(*arguments)
        raise psycopg.OperationalError("The connection broke.")

    monkeypatch.setattr(engine, "ask_once", lose)
    control.finish(first.lease, jobs.RenderResult(frames=10, outputs={"review": out("x")}), hands.slot)
    monkeypatch.undo()
    assert len(asked) == 1
    following = control.claim(hands.slot)
    assert following is not None
    with sessions() as session:
        assert set(session.scalars(select(Task.lost))) == {0}
        held = session.scalars(select(Attempt.id).where(Attempt.state == AttemptState.RUNNING)).all()
        assert session.get_one(Attempt, first.lease.attempt_id).state is AttemptState.DONE
    assert held == [following.lease.attempt_id]
    assert broken(sessions) == []


def test_an_answer_that_was_lost_on_the_careful_way_costs_no_task_anything(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is out of the ordinary is a transaction of several statements; its commit happened unseen."""
    hands = Hands(sessions)
    hands.submit()
    hands.plan(4)
    control = Control(sessions, Policy(), sleep=lambda _: None)
    first = hands.must_claim()
    monkeypatch.setattr(jobs, "finish_at_once", lambda *_: None)
    lost = False

    @event.listens_for(sessions.kw["bind"], "commit")
    def hear(connection: Connection) -> None:
        nonlocal lost
        if not lost:
            lost = True
            connection.connection.driver_connection.commit()  # type: ignore[union-attr]
            connection.connection.driver_connection.close()  # type: ignore[union-attr]

    control.finish(first.lease, jobs.RenderResult(frames=10, outputs={"review": out("x")}), hands.slot)
    event.remove(sessions.kw["bind"], "commit", hear)
    assert lost
    following = control.claim(hands.slot)
    assert following is not None
    with sessions() as session:
        assert set(session.scalars(select(Task.lost))) == {0}
        held = session.scalars(select(Attempt.id).where(Attempt.state == AttemptState.RUNNING)).all()
    assert held == [following.lease.attempt_id]
    assert broken(sessions) == []


def test_a_worker_that_leaves_hands_back_what_came_with_its_last_chunk(sessions: Sessions) -> None:
    hands = Hands(sessions)
    job = hands.submit()
    hands.plan(3)
    control = Control(sessions, Policy(), sleep=lambda _: None)
    claim = control.claim(hands.slot)
    assert claim is not None
    control.finish(claim.lease, jobs.RenderResult(frames=10, outputs={"review": out("x")}), hands.slot)
    control.hand_back()
    assert hands.tasks(job, TaskKind.RENDER) == [TaskState.DONE, TaskState.READY, TaskState.READY]
    assert running(sessions, "default") == 0


def test_many_change_places_between_projects_without_a_deadlock(sessions: Sessions) -> None:
    planner = Hands(sessions)
    for number in range(3):
        planner.submit(project=f"p{number}")
        planner.plan(20)
    got: list[str] = []

    def work(hands: Hands) -> None:
        claim = hands.claim(TaskKind.RENDER)
        while claim is not None:
            got.append(claim.lease.task_id)
            followed = hands.go_on(claim)
            claim = followed.claim or hands.claim(TaskKind.RENDER)

    together(*[partial(work, Hands(sessions, f"w{n}", kinds=(TaskKind.RENDER,))) for n in range(6)])
    assert len(got) == 60
    assert max(Counter(got).values()) == 1
    with sessions() as session:
        session.execute(text("SELECT pg_stat_force_next_flush()"))
        assert session.scalar(text("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")) == 0
        assert session.scalar(select(func.count()).select_from(Job).where(Job.gpu_seconds > 0)) == 3
    assert broken(sessions) == []
