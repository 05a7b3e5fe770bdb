"""A job's way from submission to completion, and that each step opens the next in the same transaction."""

from __future__ import annotations

import pytest
from sqlalchemy import select

from farm import jobs
from farm.db.engine import Sessions, transact
from farm.db.tables import Deliverable, Event, Job, Project
from farm.errors import ConflictError, InputError, NotFoundError, StaleLeaseError
from farm.jobs import JobState, TaskKind, TaskState
from farm.jobs.wire import WIRE
from tests.integration.jobs.hands import SHA, Hands, chunk, request


def test_a_job_without_faces_goes_plan_render_merge(sessions: Sessions) -> None:
    hands = Hands(sessions)
    job = hands.submit()
    assert hands.state(job) is JobState.QUEUED
    plan = hands.must_claim()
    assert (plan.kind, plan.job.id, plan.number, plan.wire) == (TaskKind.PLAN, job, 1, WIRE)
    assert hands.state(job) is JobState.RUNNING
    hands.publish(plan, 0)
    first = hands.must_claim()
    assert first.kind is TaskKind.RENDER, "the first chunk is claimable while the plan goes on"
    assert first.chunk is not None
    assert (first.chunk.first, first.chunk.last, first.plan_finished) == (0, 10, False)
    assert hands.claim() is None
    hands.publish(plan, 1)
    hands.finish(plan, chunks=2)
    hands.finish(first)
    second = hands.must_claim()
    assert second.plan_finished
    assert hands.tasks(job, TaskKind.MERGE) == [TaskState.WAITING]
    hands.finish(second)
    assert hands.state(job) is JobState.MERGING
    merge = hands.must_claim()
    assert merge.kind is TaskKind.MERGE
    assert [d.outputs["review"].key for d in merge.done] == [f"chunk/{c.lease.attempt_id}" for c in (first, second)]
    hands.finish(merge)
    assert hands.state(job) is JobState.COMPLETED
    with sessions() as session:
        made = session.scalars(select(Deliverable)).one()
        assert (made.name, made.object_key, made.current) == ("review", f"merge/{merge.lease.attempt_id}", True)
        assert session.scalars(select(Project.running)).one() == 0
        events = session.scalars(select(Event).where(Event.job_id == job).order_by(Event.id)).all()
        assert [e.after for e in events if e.kind == "job.state"] == ["queued", "running", "merging", "completed"]
        assert all(e.reason for e in events)


def test_faces_need_a_cast_and_a_mapping(sessions: Sessions) -> None:
    hands = Hands(sessions)
    job = hands.submit("swap")
    hands.plan(2)
    assert hands.tasks(job, TaskKind.RENDER) == [TaskState.WAITING] * 2
    cast = hands.must_claim()
    assert cast.kind is TaskKind.CAST
    assert [c.position for c in cast.chunks] == [0, 1]
    hands.finish(cast, mapping={"m1": "hero"})
    render = hands.must_claim()
    assert (render.kind, render.mapping, render.cast_key) == (TaskKind.RENDER, {"m1": "hero"}, "cast")
    hands.finish(render)
    hands.work()
    assert hands.state(job) is JobState.COMPLETED


def test_a_mapping_that_nobody_could_decide_waits_for_a_person(sessions: Sessions) -> None:
    hands = Hands(sessions)
    job = hands.submit("swap")
    hands.plan(2)
    hands.finish(hands.must_claim())
    assert hands.state(job) is JobState.AWAITING_CAST
    assert hands.claim() is None
    assert hands.command("choose_mapping", job, mapping={"m1": "hero"}) is JobState.RUNNING
    assert hands.work() == 3
    assert hands.state(job) is JobState.COMPLETED
    with pytest.raises(ConflictError, match="waits for one"):
        hands.command("choose_mapping", job, mapping={})


def test_cast_and_mapping_may_come_before_the_plan_has_ended(sessions: Sessions) -> None:
    hands = Hands(sessions)
    job = hands.submit("swap")
    plan = hands.must_claim()
    hands.publish(plan, 0)
    assert hands.claim() is None
    transact(sessions, lambda s: jobs.open_cast(s, plan.lease))
    cast = hands.must_claim()
    assert (cast.kind, cast.plan_finished) == (TaskKind.CAST, False)
    transact(sessions, lambda s: jobs.publish_mapping(s, cast.lease, {"m1": "hero"}))
    assert hands.must_claim().kind is TaskKind.RENDER
    hands.publish(plan, 1)
    assert hands.tasks(job, TaskKind.RENDER) == [TaskState.RUNNING, TaskState.READY]


def test_one_key_makes_one_job(sessions: Sessions) -> None:
    hands = Hands(sessions)
    job = hands.submit(key="k")
    moved = {"object_key": "uploads/other", "sha256": SHA, "size": 10}
    assert hands.submit(key="k", plate=moved, permit={"issued": "anew"}) == job
    with pytest.raises(ConflictError, match="another request"):
        hands.submit(key="k", priority=99)
    assert hands.submit(key="k", project="other") != job
    with sessions() as session:
        assert len(session.scalars(select(Job)).all()) == 2


def test_a_plan_may_run_again_without_undoing_what_is_rendered(sessions: Sessions) -> None:
    hands = Hands(sessions)
    job = hands.submit()
    plan = hands.must_claim()
    hands.publish(plan, 0, 1, 2)
    hands.finish(hands.must_claim())
    running = hands.must_claim()
    hands.fail(plan, "interrupted")
    again = hands.must_claim(TaskKind.PLAN)
    hands.publish(again, 0, 1)
    assert hands.tasks(job, TaskKind.RENDER) == [TaskState.DONE, TaskState.RUNNING, TaskState.READY]
    assert hands.beat(running).alive
    cut_elsewhere = chunk(1, segment="1" * 64)
    transact(sessions, lambda s: jobs.publish_chunk(s, again.lease, cut_elsewhere))
    assert hands.beat(running).reason == "superseded"
    assert hands.tasks(job, TaskKind.RENDER) == [TaskState.DONE, TaskState.READY, TaskState.READY]
    hands.finish(again, chunks=2)
    assert hands.tasks(job, TaskKind.RENDER) == [TaskState.DONE, TaskState.READY], "chunk 2 is not in the plan any more"


def test_results_that_do_not_fit_the_plan_are_refused(sessions: Sessions) -> None:
    hands = Hands(sessions)
    hands.submit()
    plan = hands.must_claim()
    hands.publish(plan, 0, 2)
    with pytest.raises(ConflictError, match="gap"):
        hands.finish(plan, chunks=3)
    hands.publish(plan, 1)
    hands.finish(plan, chunks=3)
    render = hands.must_claim()
    result = jobs.RenderResult(frames=9, outputs={"review": {"key": "k", "sha256": SHA, "size": 1}})
    with pytest.raises(ConflictError, match="10 frames by the plan, 9 were"):
        transact(sessions, lambda s: jobs.finish(s, render.lease, result))
    wrong = jobs.RenderResult(frames=10, outputs={"proxy": {"key": "k", "sha256": SHA, "size": 1}})
    with pytest.raises(ConflictError, match="no output for review"):
        transact(sessions, lambda s: jobs.finish(s, render.lease, wrong))


def test_a_changed_plate_is_noticed(sessions: Sessions) -> None:
    hands = Hands(sessions)
    hands.submit()
    plan = hands.must_claim()
    with pytest.raises(ConflictError, match="sha256 has changed"):
        transact(sessions, lambda s: jobs.publish_plate(s, plan.lease, facts={}, sha256="f" * 64, size=1))


def test_what_does_not_exist_is_said(sessions: Sessions) -> None:
    hands = Hands(sessions)
    with pytest.raises(NotFoundError):
        hands.command("cancel", "nothing")
    job = hands.submit()
    with pytest.raises(NotFoundError, match="no chunk 7"):
        hands.command("requeue", job, what=7)
    with pytest.raises(NotFoundError, match="needed job"):
        hands.submit(needs=[{"job_id": "nothing"}])


def test_a_report_may_be_repeated_but_not_by_a_stranger(sessions: Sessions) -> None:
    hands = Hands(sessions)
    job = hands.submit()
    plan = hands.must_claim()
    hands.publish(plan, 0)
    hands.finish(plan, chunks=1)
    hands.finish(plan, chunks=1)
    render = hands.must_claim()
    hands.fail(render, "unknown")
    assert hands.fail(render, "unknown") is TaskState.READY
    with pytest.raises(StaleLeaseError):
        hands.finish(render)
    forged = render.lease.model_copy(update={"token": "guess"})
    with pytest.raises(StaleLeaseError):
        transact(sessions, lambda s: jobs.fail(s, forged, "unknown", "x"))
    assert hands.state(job) is JobState.RUNNING


def test_the_request_is_checked_before_anything_is_written() -> None:
    with pytest.raises(ValueError, match="exactly one"):
        request(plate={"object_key": "a", "uri": "s3://b/c", "sha256": SHA})
    with pytest.raises(ValueError, match="sha256"):
        request(plate={"object_key": "a"})
    with pytest.raises(ValueError, match="once only"):
        request(deliverables=["review", "review"])


def test_a_plan_that_decoding_refutes_is_made_again(sessions: Sessions) -> None:
    hands = Hands(sessions)
    job = hands.submit()
    hands.plan(3)
    hands.finish(hands.must_claim())
    running, refuting = hands.must_claim(), hands.must_claim()
    transact(sessions, lambda s: jobs.replan(s, refuting.lease, "Chunk 2 has 9 frames, not 10."))
    assert hands.tasks(job, TaskKind.RENDER) == [TaskState.DONE, TaskState.RUNNING, TaskState.WAITING]
    plan = hands.must_claim()
    assert plan.kind is TaskKind.PLAN
    assert plan.plan_by_decode
    hands.publish(plan, 0, 1)
    moved = chunk(2, segment="2" * 64)
    transact(sessions, lambda s: jobs.publish_chunk(s, plan.lease, moved))
    assert hands.beat(running).alive, "what came out the same goes on"
    transact(sessions, lambda s: jobs.replan(s, running.lease, "It is wrong, too, and noticed it late."))
    assert hands.tasks(job, TaskKind.RENDER) == [TaskState.DONE, TaskState.READY, TaskState.READY]
    hands.finish(plan)
    hands.finish(hands.must_claim())
    last = hands.must_claim()
    assert last.chunk is not None
    assert last.chunk.segment_sha256 == "2" * 64
    with pytest.raises(InputError, match="other frames each time"):
        transact(sessions, lambda s: jobs.replan(s, last.lease, "again"))
    hands.finish(last)
    hands.work()
    assert hands.state(job) is JobState.COMPLETED
