"""What people tell jobs, at every moment at which they may do so."""

from __future__ import annotations

import pytest

from farm.db.engine import Sessions
from farm.errors import ConflictError, StaleLeaseError
from farm.jobs import JobState, TaskKind, TaskState
from farm.jobs.reconcile import Finisher
from tests.integration.jobs.hands import Hands


def test_cancel_stops_everything_and_is_final(sessions: Sessions) -> None:
    hands = Hands(sessions)
    job = hands.submit()
    hands.plan(3)
    render = hands.must_claim()
    assert hands.command("cancel", job) is JobState.CANCELLING
    assert hands.command("cancel", job) is JobState.CANCELLING
    assert hands.claim() is None
    answer = hands.beat(render, 5)
    assert (answer.alive, answer.reason) == (False, "cancelled")
    hands.fail(render, "interrupted", "Told to stop.")
    assert hands.state(job) is JobState.CANCELLED
    assert set(hands.tasks(job, TaskKind.RENDER)) == {TaskState.CANCELLED}
    with pytest.raises(ConflictError):
        hands.command("pause", job)


def test_a_cancelled_queued_job_ends_at_once(sessions: Sessions) -> None:
    hands = Hands(sessions)
    job = hands.submit()
    assert hands.command("cancel", job) is JobState.CANCELLED


def test_a_merge_that_ends_while_a_cancel_waits_delivers_nothing(sessions: Sessions) -> None:
    hands = Hands(sessions)
    job = hands.submit()
    hands.plan(1)
    hands.finish(hands.must_claim())
    merge = hands.must_claim()
    hands.command("cancel", job)
    hands.finish(merge)
    assert hands.state(job) is JobState.CANCELLED


def test_a_cancel_of_a_completed_job_is_refused(sessions: Sessions) -> None:
    hands = Hands(sessions)
    job = hands.submit()
    hands.work()
    with pytest.raises(ConflictError, match="completed cannot be cancelled"):
        hands.command("cancel", job)


def test_pause_hands_back_and_resume_goes_on(sessions: Sessions) -> None:
    hands = Hands(sessions)
    job = hands.submit()
    plan = hands.must_claim()
    hands.publish(plan, 0, 1)
    render = hands.must_claim()
    assert hands.command("pause", job) is JobState.PAUSING
    assert hands.beat(render).reason == "paused"
    assert hands.claim() is None
    hands.publish(plan, 2)
    hands.finish(plan)
    assert hands.fail(render, "interrupted", "Told to stop.") is TaskState.PAUSED
    assert hands.state(job) is JobState.PAUSED
    assert hands.tasks(job, TaskKind.RENDER) == [TaskState.PAUSED] * 3
    assert hands.command("resume", job) is JobState.RUNNING
    assert hands.work() == 4
    assert hands.state(job) is JobState.COMPLETED


def test_the_last_chunk_may_end_while_the_job_pauses(sessions: Sessions) -> None:
    hands = Hands(sessions)
    job = hands.submit()
    hands.plan(1)
    render = hands.must_claim()
    hands.command("pause", job)
    hands.finish(render)
    assert hands.state(job) is JobState.PAUSED
    assert hands.claim() is None, "the merge waits for the resume"
    assert hands.command("resume", job) is JobState.MERGING
    hands.work()
    assert hands.state(job) is JobState.COMPLETED


def test_the_last_task_may_fail_while_the_job_pauses(sessions: Sessions) -> None:
    hands = Hands(sessions)
    job = hands.submit()
    hands.plan(1)
    render = hands.must_claim()
    hands.command("pause", job)
    hands.fail(render, "input", "Frame 3 cannot be decoded.")
    assert hands.state(job) is JobState.FAILED
    assert "Frame 3 cannot be decoded" in hands.reason(job)


def test_resume_before_anything_stopped_keeps_the_attempts(sessions: Sessions) -> None:
    hands = Hands(sessions)
    job = hands.submit()
    hands.plan(2)
    render = hands.must_claim()
    hands.command("pause", job)
    hands.command("resume", job)
    assert hands.beat(render).alive
    hands.finish(render)
    hands.work()
    assert hands.state(job) is JobState.COMPLETED


def test_one_chunk_of_a_completed_job_again(sessions: Sessions) -> None:
    hands = Hands(sessions)
    job = hands.submit()
    hands.work()
    assert hands.command("requeue", job, what=1) is JobState.RUNNING
    again = hands.must_claim()
    assert (again.kind, again.position, again.number) == (TaskKind.RENDER, 1, 2)
    assert hands.claim() is None
    hands.finish(again)
    merge = hands.must_claim()
    assert merge.done[1].outputs["review"].key == f"chunk/{again.lease.attempt_id}"
    hands.finish(merge)
    assert hands.state(job) is JobState.COMPLETED


def test_requeue_while_running_supersedes_the_attempt(sessions: Sessions) -> None:
    hands = Hands(sessions)
    job = hands.submit()
    hands.plan(1)
    old = hands.must_claim()
    hands.command("requeue", job, what=0)
    new = hands.must_claim()
    assert hands.beat(old).reason == "superseded"
    with pytest.raises(StaleLeaseError, match="superseded"):
        hands.finish(old)
    with pytest.raises(StaleLeaseError):
        hands.fail(old, "unknown")
    hands.finish(new)
    hands.work()
    assert hands.state(job) is JobState.COMPLETED


def test_the_whole_job_again(sessions: Sessions) -> None:
    hands = Hands(sessions)
    job = hands.submit("swap")
    assert hands.work(mapping={"m": "hero"}) == 6
    assert hands.command("requeue", job, what="job") is JobState.QUEUED
    assert hands.work(mapping={"m": "hero"}) == 6
    assert hands.state(job) is JobState.COMPLETED


def test_failed_chunks_again_or_as_they_are(sessions: Sessions) -> None:
    hands = Hands(sessions)
    job = hands.submit(max_attempts=1)
    hands.plan(2)
    hands.fail(hands.must_claim(), "unknown", "No face model.")
    assert hands.state(job) is JobState.FAILED
    assert hands.reason(job).startswith("1 of 2 chunks failed; the first is chunk 0: No face model.")
    assert hands.command("requeue", job) is JobState.RUNNING
    assert hands.tasks(job, TaskKind.RENDER) == [TaskState.READY, TaskState.READY]
    hands.fail(hands.must_claim(), "unknown")
    hands.command("accept_as_is", job, position=0, reason="The face is behind a tree.")
    claim = hands.must_claim()
    assert claim.chunk is not None
    assert claim.chunk.as_is
    hands.finish(claim)
    hands.work()
    assert hands.state(job) is JobState.COMPLETED
    with pytest.raises(ConflictError, match="Only a failed chunk"):
        hands.command("accept_as_is", job, position=1, reason="x")


def test_priority_counts_at_once(sessions: Sessions) -> None:
    hands = Hands(sessions)
    early, late = hands.submit(), hands.submit()
    hands.command("set_priority", late, priority=90)
    assert hands.must_claim().job.id == late
    assert hands.must_claim().job.id == early
    with pytest.raises(ConflictError, match="no priority 101"):
        hands.command("set_priority", late, priority=101)


def test_nothing_is_left_for_the_finisher(sessions: Sessions) -> None:
    hands = Hands(sessions)
    hands.submit()
    hands.work()
    assert Finisher(sessions).run_once() == 0
