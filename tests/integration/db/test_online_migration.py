"""The schema is brought up to date under a busy farm: workers of the version before go on, and those of today join."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from functools import partial
from importlib import import_module

import pytest
from sqlalchemy import literal, select, table, text
from sqlalchemy.orm import Session

from farm import jobs
from farm.db.engine import Sessions, make_engine, make_sessions, transact
from farm.db.migrate import downgrade, upgrade
from farm.db.tables import Chunk, Task
from farm.jobs import JobState, TaskKind, TaskState
from tests.integration.db.old_worker import OldClaim, OldWorker
from tests.integration.jobs.hands import Hands, out
from tests.integration.jobs.invariants import broken

BEFORE = "0002"
JOBS, CHUNKS, WORKERS = 3, 30, 3


@pytest.fixture
def farm(schema_database: str) -> Iterator[Sessions]:
    engine = make_engine(schema_database, pool_size=10)
    yield make_sessions(engine)
    engine.dispose()


class Busy:
    """Workers of the version before, at work until there is nothing left. `going` is set once each has done a few."""

    def __init__(self, sessions: Sessions) -> None:
        self.going = threading.Barrier(WORKERS + 1)
        self.done: Counter[str] = Counter()
        self.last: list[OldClaim] = []
        self.errors: list[BaseException] = []
        workers = [OldWorker(sessions, f"old{n}") for n in range(WORKERS)]
        self._threads = [threading.Thread(target=self._work, args=(worker,)) for worker in workers]
        for thread in self._threads:
            thread.start()

    def _work(self, worker: OldWorker) -> None:
        try:
            for number in range(CHUNKS * JOBS):
                if number == 5:
                    self.going.wait(60)
                claim = worker.claim()
                if claim is None:
                    return
                if worker.finish(claim, 10):
                    self.done[claim.task_id] += 1
                else:
                    self.last.append(claim)
        except BaseException as error:  # handed to the test's own thread
            self.going.abort()
            self.errors.append(error)

    def join(self) -> None:
        for thread in self._threads:
            thread.join()


def test_old_workers_go_on_while_the_schema_changes_and_new_ones_join(farm: Sessions, schema_database: str) -> None:
    hands = Hands(farm)
    submitted = [hands.submit(project=f"p{number}") for number in range(JOBS)]
    for _ in submitted:
        hands.plan(CHUNKS)
    downgrade(schema_database, BEFORE)
    busy = Busy(farm)
    busy.going.wait(60)
    upgrade(schema_database)
    new: Counter[str] = Counter()
    today = Hands(farm, "today", kinds=(TaskKind.RENDER,))
    claim = today.claim()
    while claim is not None:
        new[claim.lease.task_id] += 1
        claim = today.go_on(claim).claim or today.claim()
    busy.join()
    assert busy.errors == []
    for old in busy.last:
        transact(farm, partial(finish_last, old))
    assert max((busy.done + new).values()) == 1
    assert hands.work() == JOBS, "the merges"
    assert {hands.state(job) for job in submitted} == {JobState.COMPLETED}
    with farm() as session:
        kinds = session.scalars(select(Task.state).where(Task.kind == TaskKind.RENDER)).all()
        assert Counter(kinds) == {TaskState.DONE: JOBS * CHUNKS}
        assert not session.scalars(select(Chunk.task_id).where(Chunk.outputs.is_(None))).all()
    assert broken(farm) == []


def finish_last(old: OldClaim, session: Session) -> None:
    """The last chunk of a job went through code that knows no SQL of its own; today's is as good."""
    until = session.scalar(text("SELECT lease_until FROM attempt WHERE id = :id"), {"id": old.attempt_id})
    assert until is not None
    lease = jobs.Lease(
        token=old.token, job_id=old.job_id, task_id=old.task_id, attempt_id=old.attempt_id, until=until, seconds=30,
        heartbeat_seconds=2,
    )  # fmt: skip
    jobs.finish(session, lease, jobs.RenderResult(frames=10, outputs={"review": out(f"chunk/{old.attempt_id}")}))


@pytest.fixture
def before_0007(monkeypatch: pytest.MonkeyPatch) -> None:
    """Claims and ends of renders as workers call them that are of the time before revision 0007."""
    for module, name, now, then in (
        ("claim", "_CLAIM", "farm_claim_2", "farm_claim_1"),
        ("finish", "_FINISH", "farm_finish_render_2", "farm_finish_render_1"),
    ):
        found = import_module(f"farm.jobs.{module}")
        monkeypatch.setattr(found, name, getattr(found, name).replace(now, then))


@pytest.mark.usefixtures("before_0007")
def test_workers_of_the_wire_before_go_on_while_lanes_learn_of_it(farm: Sessions, schema_database: str) -> None:
    """Revision 0006: the functions of claims are amended under their feet, and jobs with faces are theirs no more."""
    for number in range(JOBS):
        Hands(farm).submit(project=f"p{number}")
        Hands(farm).plan(4 * CHUNKS)
    downgrade(schema_database, "0005")
    going, upgraded = threading.Barrier(WORKERS + 1), threading.Event()
    errors = list[BaseException]()

    def work(name: str) -> None:
        hands = Hands(farm, name, wire=1, kinds=(TaskKind.RENDER,))
        try:
            claim = hands.must_claim()
            for number in range(2 * CHUNKS + 10):  # never the last chunk of a job, which goes another way
                if number == 5:
                    going.wait(60)
                if number == 2 * CHUNKS:
                    upgraded.wait(60)
                followed = hands.go_on(claim).claim
                assert followed is not None
                claim = followed
        except BaseException as error:  # handed to the test's own thread
            going.abort()
            errors.append(error)

    threads = [threading.Thread(target=work, args=(f"old{n}",)) for n in range(WORKERS)]
    for thread in threads:
        thread.start()
    going.wait(60)
    upgrade(schema_database)
    upgraded.set()
    for thread in threads:
        thread.join()
    assert errors == []
    assert broken(farm) == []
    swap = Hands(farm).submit("swap", priority=90)
    Hands(farm).plan(2)
    plain = Hands(farm, "old0", wire=1).must_claim()
    assert plain.job.id != swap
    assert Hands(farm).must_claim(TaskKind.CAST).job.id == swap


def test_deadlines_of_open_jobs_get_into_the_order_of_claims(farm: Sessions, schema_database: str) -> None:
    hands = Hands(farm)
    old = hands.submit()
    due = hands.submit(deadline="2099-01-01T00:00Z")
    downgrade(schema_database, BEFORE)
    upgrade(schema_database)
    assert [hands.must_claim().job.id for _ in range(2)] == [due, old]


def test_a_migration_that_was_broken_off_is_done_again(farm: Sessions, schema_database: str) -> None:
    """The indexes are built outside of any transaction: what was left half made must not be taken for whole."""
    downgrade(schema_database, "0003")
    with farm.begin() as session:
        session.execute(text("UPDATE alembic_version SET version_num = :before"), {"before": BEFORE})
        session.execute(text("DROP INDEX ix_task_claim"))
    upgrade(schema_database)
    with farm() as session:
        valid = text("SELECT indisvalid FROM pg_index WHERE indexrelid = 'ix_task_claim'::regclass")
        assert session.scalar(valid) is True
    assert Hands(farm).submit()


@pytest.mark.parametrize(
    ("before", "to", "held", "wanted"), [("0002", "0003", "job", "task"), ("0005", "0006", "lane", "job")]
)
def test_a_migration_never_holds_one_table_while_it_waits_for_another(
    farm: Sessions, schema_database: str, before: str, to: str, held: str, wanted: str
) -> None:
    """A worker that came to the tables in the other order would be in a deadlock with it, and one of them would end."""
    downgrade(schema_database, before)
    migrating = threading.Thread(target=upgrade, args=(schema_database, to))
    with farm() as worker, farm() as onlooker:
        worker.execute(select(literal(1)).select_from(table(held)))
        migrating.start()
        waits = text(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE application_name = 'farm-migrate' AND datname = current_database() AND wait_event_type = 'Lock'"
        )
        while not onlooker.scalar(waits):
            onlooker.rollback()
            assert migrating.is_alive()
        worker.execute(text("SET LOCAL lock_timeout = '2s'"))
        worker.execute(select(literal(1)).select_from(table(wanted)))
    migrating.join()
    with farm() as session:
        assert session.scalar(text("SELECT version_num FROM alembic_version")) == to
