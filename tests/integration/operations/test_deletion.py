"""A job is deleted: cancelled first where it runs, then its objects and rows go, and nothing of it comes back."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import select

from farm.db.engine import Sessions, transact
from farm.db.tables import Base, Event, Job, Project
from farm.errors import ConflictError, NotFoundError, StaleLeaseError
from farm.jobs import JobState, TaskKind
from farm.orphans import OrphanSweeper
from farm.removal import JobRemover
from farm.store import keys
from farm.store.memory import MemoryStore
from tests.integration.jobs.hands import Hands
from tests.integration.jobs.invariants import broken
from tests.integration.operations.conftest import Ask


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def rows_of(sessions: Sessions, job: str) -> list[str]:
    """Tables that still know the job."""
    with sessions() as session:
        return [
            table.name
            for table in Base.metadata.sorted_tables
            if "job_id" in table.c and session.execute(select(table).where(table.c.job_id == job).limit(1)).first()
        ]


def test_an_ended_job_is_deleted_with_all_that_is_stored_of_it(
    sessions: Sessions, store: MemoryStore, api: Ask
) -> None:
    hands = Hands(sessions)
    job, other = hands.submit(), hands.submit()
    hands.work()
    for owner in (job, other):
        store.put_bytes(keys.plate(owner), b"plate")
        store.put_bytes(keys.job(owner) + "merges/1", b"film")
    remover = JobRemover(sessions, store)
    assert remover.run_once() == 0
    told = api("DELETE", f"/jobs/{job}", {"reason": "It was a test."}, status=202)
    assert (told["state"], told["deleting"]) == ("completed", True)
    assert "being deleted" in told["why"]
    api("POST", f"/jobs/{job}/requeue", {"what": "job"}, status=409)
    assert remover.run_once() == 1
    assert remover.run_once() == 0
    api("GET", f"/jobs/{job}", status=404)
    assert rows_of(sessions, job) == []
    assert {info.key for info in store.list("")} == {keys.plate(other), keys.job(other) + "merges/1"}
    assert rows_of(sessions, other)
    with sessions() as session:
        gone = session.scalars(select(Event).where(Event.kind == "job.deleted")).one()
        assert gone.data == {"job": job}
        assert session.scalars(select(Project)).one().gpu_seconds > 0, "what it used stays counted"
    api("DELETE", f"/jobs/{job}", status=404)


def test_a_running_job_is_cancelled_first(sessions: Sessions, store: MemoryStore) -> None:
    hands, remover = Hands(sessions), JobRemover(sessions, store)
    job = hands.submit()
    hands.plan(2)
    claim = hands.must_claim(TaskKind.RENDER)
    store.put_bytes(keys.plate(job), b"plate")
    assert hands.command("delete", job) is JobState.CANCELLING
    assert hands.command("delete", job) is JobState.CANCELLING
    assert remover.run_once() == 0, "a slot is still at work"
    assert hands.beat(claim).reason == "cancelled"
    hands.fail(claim, "interrupted")
    assert hands.state(job) is JobState.CANCELLED
    assert remover.run_once() == 1
    assert broken(sessions) == []
    assert list(store.list("")) == []


def test_a_late_worker_of_a_deleted_job_hears_that_its_lease_is_void(sessions: Sessions, store: MemoryStore) -> None:
    hands = Hands(sessions)
    job = hands.submit()
    hands.plan(1)
    claim = hands.must_claim(TaskKind.RENDER)
    hands.command("delete", job)
    hands.fail(claim, "interrupted")
    JobRemover(sessions, store).run_once()
    assert hands.beat(claim).reason == "superseded"
    with pytest.raises(StaleLeaseError, match="deleted"):
        hands.finish(claim)
    with pytest.raises(StaleLeaseError, match="deleted"):
        hands.fail(claim, "interrupted")
    store.put_bytes(keys.chunk_attempt(job, 0, claim.lease.attempt_id) + "late", b"late")
    OrphanSweeper(sessions, store, age=timedelta(seconds=-3600), every=0).run_once()
    assert list(store.list("")) == []


def test_what_a_waiting_job_needs_is_kept_until_that_has_heard(sessions: Sessions, store: MemoryStore) -> None:
    hands, remover = Hands(sessions), JobRemover(sessions, store)
    job = hands.submit()
    waiting = hands.submit(needs=[{"job_id": job, "hard": False}])
    hands.command("delete", job)
    assert remover.run_once() == 0
    hands.command("cancel", waiting)
    assert remover.run_once() == 1
    with sessions() as session:
        assert session.scalars(select(Job.id)).all() == [waiting]


def test_two_removers_and_one_that_died_in_between(sessions: Sessions, store: MemoryStore) -> None:
    hands = Hands(sessions)
    job = hands.submit()
    hands.command("delete", job)
    store.delete_prefix(keys.job(job))  # as the one that died had done
    first, second = JobRemover(sessions, store), JobRemover(sessions, store)
    assert first.run_once() + second.run_once() == 1
    with pytest.raises(NotFoundError):
        hands.command("delete", job)
    with pytest.raises(NotFoundError):
        transact(sessions, lambda s: hands.command("cancel", job))


def test_a_job_that_is_being_deleted_takes_no_more_commands(sessions: Sessions) -> None:
    hands = Hands(sessions)
    job = hands.submit()
    hands.plan(1)
    hands.command("delete", job)
    for name in ("requeue", "resume"):
        with pytest.raises(ConflictError):
            hands.command(name, job)
