"""An ended job with another recipe, and results that stand in for work."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import select

from farm import jobs
from farm.db.engine import Sessions, transact
from farm.db.tables import Attempt, Chunk, Event, Fingerprint, Job
from farm.errors import ConflictError, ErrorClass, RecipeError, StaleLeaseError
from farm.jobs import Claim, JobState, TaskKind
from farm.jobs.policy import Policy
from farm.jobs.reconcile import KeptResults
from farm.jobs.reuse import Reusable
from farm.recipe import Recipe, preset
from tests.integration.jobs.hands import Hands

FIXED = Recipe(name="passthrough", version=2)


def ask(sessions: Sessions, claim: Claim, digest: str) -> Reusable | None:
    return transact(sessions, lambda s: jobs.reusable(s, claim.lease, digest * 64))


def rerender(sessions: Sessions, job: str, recipe: Recipe = FIXED) -> JobState:
    return transact(sessions, lambda s: jobs.rerender(s, job, recipe, permit={"token": "new"}, actor="tester"))


def finished(hands: Hands, *digests: str, **changes: Any) -> str:
    """A completed job, whose chunks have these fingerprints."""
    job = hands.submit(**changes)
    hands.plan(len(digests))
    for digest in digests:
        claim = hands.must_claim(TaskKind.RENDER)
        ask(hands.sessions, claim, digest)
        hands.finish(claim)
    hands.work()
    assert hands.state(job) is JobState.COMPLETED
    return job


def test_only_what_changes_is_rendered_again(sessions: Sessions) -> None:
    hands = Hands(sessions)
    job = finished(hands, "a", "b")
    with sessions() as session:
        before = dict(session.execute(select(Chunk.position, Chunk.attempt_id).where(Chunk.job_id == job)).all())
    assert rerender(sessions, job) is JobState.RUNNING
    with sessions() as session:
        row = session.get_one(Job, job)
        assert (row.request["recipe"]["version"], row.permit) == (2, {"token": "new"})
    first, second = hands.must_claim(), hands.must_claim()
    assert {first.kind, second.kind} == {TaskKind.RENDER}, "neither plan nor merge comes first"
    found = ask(sessions, first, "a")
    assert found is not None
    assert (found.job_id, found.attempt_id) == (job, before[0])
    assert ask(sessions, second, "c") is None
    for claim in (first, second):
        hands.finish(claim)
    hands.work()
    assert hands.state(job) is JobState.COMPLETED
    assert KeptResults(sessions).run_once() == 0, "it may be requeued once more at once"
    assert KeptResults(sessions, Policy(garbage_seconds=0)).run_once() == 2
    with sessions() as session:
        garbage = set(session.scalars(select(Attempt.id).where(Attempt.job_id == job, Attempt.garbage)))
        accepted = set(session.scalars(select(Chunk.attempt_id).where(Chunk.job_id == job)))
        kept = session.scalars(select(Fingerprint).where(Fingerprint.outputs.is_not(None))).all()
    assert garbage == set(before.values())
    assert not garbage & accepted
    assert kept == []


def test_a_result_without_a_fingerprint_is_discarded(sessions: Sessions) -> None:
    hands = Hands(sessions)
    job = hands.submit()
    hands.work()
    rerender(sessions, job)
    with sessions() as session:
        garbage = session.scalars(select(Attempt.kind).where(Attempt.job_id == job, Attempt.garbage)).all()
    assert garbage == [TaskKind.RENDER] * 3


def test_a_result_is_found_by_another_job_of_the_project_and_by_no_other_project(sessions: Sessions) -> None:
    hands = Hands(sessions)
    first = finished(hands, "a", project="film")
    for project, expected in (("film", first), ("other", None)):
        hands.submit(project=project)
        hands.plan(1)
        claim = hands.must_claim(TaskKind.RENDER)
        found = ask(sessions, claim, "a")
        assert (found and found.job_id) == expected
        hands.fail(claim, ErrorClass.RECIPE)


def test_a_result_that_was_given_up_is_not_found(sessions: Sessions) -> None:
    hands = Hands(sessions)
    first = finished(hands, "a")
    hands.command("requeue", first, what="job")
    hands.submit()
    hands.plan(1)
    hands.plan(1)
    claims = [hands.must_claim(TaskKind.RENDER) for _ in range(2)]
    assert [ask(sessions, claim, "a") for claim in claims] == [None, None]


def test_what_a_person_asked_to_be_rendered_is_rendered(sessions: Sessions) -> None:
    hands = Hands(sessions)
    finished(hands, "a")
    second = finished(hands, "a")
    hands.command("requeue", second, what=0)
    claim = hands.must_claim(TaskKind.RENDER)
    assert ask(sessions, claim, "a") is None
    hands.finish(claim)
    hands.work()
    rerender(sessions, second)
    assert ask(sessions, hands.must_claim(TaskKind.RENDER), "a") is not None


def test_the_plate_is_planned_again_where_the_segments_are_gone_or_the_size_changes(sessions: Sessions) -> None:
    hands = Hands(sessions)
    large = preset("upscale-span")
    job = finished(hands, "a")
    rerender(sessions, job, large)
    assert hands.must_claim().kind is TaskKind.PLAN
    gone = finished(Hands(sessions, "w2"), "a", project="p2")
    with sessions.begin() as session:
        session.add(Event(job_id=gone, kind="job.retention", data={"part": "working"}))
    rerender(sessions, gone)
    assert hands.must_claim().kind is TaskKind.PLAN
    assert hands.claim() is None, "a chunk waits until the plan has stored its segment again"


def test_another_swapper_looks_at_the_people_again_and_keeps_the_choice(sessions: Sessions) -> None:
    hands = Hands(sessions)
    job = hands.submit("swap", mapping=None)
    hands.work()
    assert hands.state(job) is JobState.AWAITING_CAST
    chosen = {"mode": "cast", "assignments": {"m1": "hero"}}
    hands.command("choose_mapping", job, mapping=chosen)
    hands.work()
    assert hands.state(job) is JobState.COMPLETED
    rerender(sessions, job, preset("swap-inswapper"))
    claim = hands.must_claim()
    assert (claim.kind, claim.job.mapping_request) == (TaskKind.CAST, chosen)
    hands.finish(claim, mapping=chosen)
    hands.work()
    assert hands.state(job) is JobState.COMPLETED


def test_what_cannot_be_is_refused(sessions: Sessions) -> None:
    hands = Hands(sessions)
    job = hands.submit()
    with pytest.raises(ConflictError, match="given another recipe"):
        rerender(sessions, job)
    claim = hands.must_claim()
    hands.fail(claim, ErrorClass.INPUT)
    with pytest.raises(RecipeError, match="do not both put in faces"):
        rerender(sessions, job, preset("swap"))
    with pytest.raises(StaleLeaseError):
        ask(sessions, claim, "a")
