"""What fault injection has found, each as a test of its kind."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import Connection, event, func, select, text

from farm import jobs
from farm.db.engine import Sessions, make_engine, make_sessions, transact
from farm.db.tables import Attempt, Task
from farm.errors import ErrorClass, StaleLeaseError
from farm.jobs import JobState, TaskKind, TaskState
from farm.jobs.lost import lose_result
from farm.jobs.policy import Policy
from farm.jobs.reconcile import StaleCleaner
from farm.permits import Permits
from farm.provenance.consent import Consent
from farm.provenance.permit import LIFETIME
from farm.settings import Settings
from farm.worker.control import Control
from tests.integration.jobs.hands import SHA, Hands, chunk
from tests.integration.jobs.invariants import broken

MOST = 3
"""`max_attempts` of a request that does not say."""


def garbage(sessions: Sessions) -> set[str]:
    with sessions() as session:
        return set(session.scalars(select(Attempt.id).where(Attempt.garbage)))


def merging(hands: Hands, chunks: int = 2) -> str:
    """A job whose chunks are all rendered."""
    job = hands.submit()
    hands.plan(chunks)
    while (claim := hands.claim(TaskKind.RENDER)) is not None:
        hands.finish(claim)
    return job


def test_a_chunk_that_a_plan_makes_known_after_the_cancel_is_cancelled_too(sessions: Sessions) -> None:
    hands = Hands(sessions)
    job = hands.submit()
    plan = hands.must_claim(TaskKind.PLAN)
    hands.publish(plan, 0)
    assert hands.command("cancel", job) is JobState.CANCELLING
    hands.publish(plan, 1)
    hands.fail(plan, ErrorClass.INTERRUPTED)
    assert hands.state(job) is JobState.CANCELLED
    assert set(hands.tasks(job, TaskKind.RENDER)) == {TaskState.CANCELLED}
    assert broken(sessions) == []


def test_what_a_cancelled_merge_made_is_removed(sessions: Sessions) -> None:
    hands = Hands(sessions)
    job = merging(hands)
    merge = hands.must_claim(TaskKind.MERGE)
    hands.command("cancel", job)
    hands.finish(merge)
    assert hands.state(job) is JobState.CANCELLED
    assert garbage(sessions) == {merge.lease.attempt_id}


def test_results_of_chunks_that_are_rendered_again_are_removed(sessions: Sessions) -> None:
    hands = Hands(sessions)
    job = merging(hands)
    hands.work()
    with sessions() as session:
        before = dict(session.execute(text("SELECT position, attempt_id FROM chunk")).all())
    hands.command("requeue", job, what=1)
    assert garbage(sessions) == {before[1]}
    hands.work()
    hands.command("requeue", job, what="job")
    assert len(garbage(sessions)) == 3
    removed: list[str] = []
    cleaner = StaleCleaner(sessions, lambda found: removed.append(found.attempt_id), Policy(garbage_seconds=0))
    cleaner.run_once()
    assert set(removed) == garbage(sessions)
    assert broken(sessions) == []


def test_results_of_chunks_that_are_planned_anew_are_removed(sessions: Sessions) -> None:
    hands = Hands(sessions)
    job = hands.submit()
    plan = hands.must_claim(TaskKind.PLAN)
    hands.publish(plan, 0)
    render = hands.must_claim(TaskKind.RENDER)
    hands.finish(render)
    transact(sessions, lambda s: jobs.publish_chunk(s, plan.lease, chunk(0, segment="1" * 64)))
    assert garbage(sessions) == {render.lease.attempt_id}
    assert hands.tasks(job, TaskKind.RENDER) == [TaskState.READY]


def test_a_job_that_is_requeued_as_a_whole_renders_nothing_before_the_plan_has_come_to_it(sessions: Sessions) -> None:
    """Its segments may be gone: retention removes them, and a whole requeue is the way to have them again."""
    hands = Hands(sessions)
    job = hands.submit()
    hands.plan(2)
    hands.work()
    assert hands.command("requeue", job, what="job") is JobState.QUEUED
    assert hands.claim(TaskKind.RENDER) is None
    plan = hands.must_claim(TaskKind.PLAN)
    assert hands.claim(TaskKind.RENDER) is None
    hands.publish(plan, 0)
    assert hands.must_claim(TaskKind.RENDER).position == 0
    assert hands.claim(TaskKind.RENDER) is None
    hands.publish(plan, 1)
    assert hands.must_claim(TaskKind.RENDER).position == 1
    assert broken(sessions) == []


def test_a_claim_that_is_under_way_when_its_job_is_requeued_is_superseded(sessions: Sessions) -> None:
    """Claims do not wait for the lock of the job: the attempt ran on although its task waited for the plan."""
    hands = Hands(sessions)
    job = hands.submit()
    hands.plan(2)
    requeued = threading.Thread(target=hands.command, args=("requeue", job), kwargs={"what": "job"})
    waits = text("SELECT count(*) FROM pg_locks WHERE NOT granted")
    with sessions.begin() as claiming:
        claim = jobs.claim(claiming, hands.slot)
        assert claim is not None
        requeued.start()
        with sessions() as looking:
            while not looking.scalar(waits):
                looking.rollback()
    requeued.join()
    assert broken(sessions) == []
    assert not hands.beat(claim).alive
    with pytest.raises(StaleLeaseError):
        hands.finish(claim)


def test_a_chunk_whose_result_is_lost_is_rendered_again(sessions: Sessions) -> None:
    hands = Hands(sessions)
    job = merging(hands)
    merge = hands.must_claim(TaskKind.MERGE)
    assert transact(sessions, lambda s: lose_result(s, merge.lease, 1, "The object does not exist."))
    assert hands.state(job) is JobState.RUNNING
    assert hands.tasks(job, TaskKind.RENDER) == [TaskState.DONE, TaskState.READY]
    assert broken(sessions) == []
    hands.work()
    assert hands.state(job) is JobState.COMPLETED


def test_a_store_that_keeps_losing_results_fails_the_job_in_the_end(sessions: Sessions) -> None:
    hands = Hands(sessions)
    job = merging(hands)
    tries = 0
    while True:
        merge = hands.must_claim(TaskKind.MERGE)
        if not transact(sessions, lambda s, lease=merge.lease: lose_result(s, lease, 0, "The object is gone.")):
            break
        tries += 1
        hands.finish(hands.must_claim(TaskKind.RENDER))
    assert tries == MOST
    hands.fail(merge, ErrorClass.INPUT, "The object is gone.")
    assert hands.state(job) is JobState.FAILED


def test_permits_are_dated_by_the_clock_of_the_database(schema_database: str, tmp_path: Path) -> None:
    """They last for a quarter of an hour: of an API whose clock is an hour late, each would be dead when it is born."""
    with psycopg.connect(schema_database, autocommit=True) as connection:
        connection.execute(
            "CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS "
            "$$ SELECT pg_catalog.clock_timestamp() + interval '1 hour' $$"
        )
        database = connection.info.dbname
        connection.execute(f"ALTER DATABASE {database} SET search_path = public, pg_catalog".encode())
    engine = make_engine(schema_database)
    permits = Permits.of(Settings(permit_key_path=tmp_path / "permit.pem"), make_sessions(engine))
    made = permits.issue(job="x", plate_sha256=SHA, identities=(SHA,), recipe_digest="", consent=Consent())
    left = datetime.fromisoformat(made["expires"]) - datetime.now(UTC)
    assert timedelta(hours=1) < left <= timedelta(hours=1) + LIFETIME
    engine.dispose()


def test_claims_whose_answers_were_lost_cost_a_task_nothing(sessions: Sessions) -> None:
    """Else a task would be given up as deadly although nobody ever worked on it."""
    hands = Hands(sessions)
    hands.submit()
    control = Control(sessions, Policy(), sleep=lambda _: None)
    lost = 0

    @event.listens_for(sessions.kw["bind"], "commit")
    def hear(connection: Connection) -> None:
        """Let the commit of each first claim pass, and break the connection before its answer is heard."""
        nonlocal lost
        if lost % 2 == 0:
            connection.connection.driver_connection.commit()  # type: ignore[union-attr]
            connection.connection.driver_connection.close()  # type: ignore[union-attr]
        lost += 1

    for _ in range(5):
        claim = control.claim(hands.slot)
        assert claim is not None
        with sessions.begin() as session:
            lost = 1  # this one is heard
            jobs.fail(session, claim.lease, ErrorClass.INTERRUPTED, "Handed back.")
        lost = 0
    event.remove(sessions.kw["bind"], "commit", hear)
    with sessions() as session:
        assert set(session.scalars(select(Task.lost))) == {0}
        assert session.scalar(select(func.count()).select_from(Attempt)) == 10
    assert broken(sessions) == []
