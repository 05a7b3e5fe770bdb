"""No hot statement reads a whole large table: the plans of all that a busy farm runs, as PostgreSQL makes them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import Engine, event, text

from bench.farm_fill import Size, fill
from farm import jobs
from farm.db.engine import Sessions, make_engine, make_sessions, transact
from farm.jobs import JobState, Policy, TaskKind, views, why
from farm.jobs.reconcile import (
    BackoffEnder,
    DependencyReleaser,
    Finisher,
    LaneCloser,
    LeaseExpirer,
    OutboxDispatcher,
    StaleCleaner,
    Waker,
)
from tests.integration.jobs.hands import SHA

# with rows in the test's farm, so that the planner's own choice counts
LARGE = {"task", "chunk", "attempt", "event"}
# few rows here, many in a real farm: an index must exist for what is asked, though a scan may be the better choice here
GROWING = {"job", "plate", "deliverable", "outbox", "webhook", "delivery"}

Statement = tuple[str, Any]


@contextmanager
def recorded(engine: Engine) -> Iterator[list[Statement]]:
    """The statements that are run meanwhile, with their parameters."""
    found: list[Statement] = []

    def note(_conn: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, many: bool) -> None:
        if not many and statement.lstrip().split()[0] in {"SELECT", "WITH", "UPDATE", "DELETE"}:
            found.append((statement, parameters))

    event.listen(engine, "before_cursor_execute", note)
    yield found
    event.remove(engine, "before_cursor_execute", note)


def scanned(node: dict[str, Any]) -> set[str]:
    """The tables that a plan reads from end to end."""
    own = {node["Relation Name"]} if node["Node Type"] == "Seq Scan" else set()
    return own.union(*(scanned(part) for part in node.get("Plans", [])))


def scans(engine: Engine, statements: list[Statement]) -> list[str]:
    """Each table that a statement reads from end to end without need, with the statement."""
    bad = []
    with engine.connect() as connection:
        for setting, tables in (("random_page_cost = 1.1", LARGE), ("enable_seqscan = off", GROWING)):
            connection.execute(text(f"SET {setting}"))
            for statement, parameters in statements:
                explained = connection.exec_driver_sql(f"EXPLAIN (FORMAT JSON) {statement}", parameters)
                plan = explained.scalar_one()[0]["Plan"]
                bad += [f"{table}: {statement}" for table in scanned(plan) & tables]
            connection.commit()
    return bad


@pytest.fixture
def farm(schema_database: str) -> Iterator[Sessions]:
    """40 jobs with 400 chunks each, half of them done, 200 workers at work."""
    engine = make_engine(schema_database)
    fill(engine, Size(projects=8, jobs=40, chunks=16_000, workers=200))
    yield make_sessions(engine)
    engine.dispose()


def test_no_hot_statement_scans_a_large_table(farm: Sessions) -> None:
    engine = farm.kw["bind"]
    slot = jobs.Slot(worker_id="w7")
    with recorded(engine) as statements:
        claim = transact(farm, lambda s: jobs.claim(s, slot))
        assert claim is not None
        assert claim.kind is TaskKind.RENDER
        transact(farm, lambda s: jobs.heartbeat(s, claim.lease, jobs.Progress(frames_done=1)))
        done = jobs.RenderResult(frames=480, outputs={"review": jobs.ObjectOut(key="k", sha256=SHA, size=1)})
        transact(farm, lambda s: jobs.finish(s, claim.lease, done))
        other = transact(farm, lambda s: jobs.claim(s, slot))
        assert other is not None
        transact(farm, lambda s: jobs.fail(s, other.lease, "unknown", "x"))
        job = claim.lease.job_id
        for service in (
            LeaseExpirer(farm),
            BackoffEnder(farm),
            DependencyReleaser(farm),
            Finisher(farm),
            Waker(farm, Policy(wake_again_seconds=0)),
            LaneCloser(farm, Policy(wake_again_seconds=0)),
            OutboxDispatcher(farm, lambda _: None),
            StaleCleaner(farm, lambda _: None),
        ):
            service.run_once()
        with farm() as session:
            views.job_view(session, job)
            views.list_jobs(session, states=[JobState.RUNNING], limit=1)
            views.events_after(session, job)
            views.chunks(session, job)
            why.why_job(session, job)
    assert len(statements) > 25
    assert scans(engine, statements) == []


def test_the_check_sees_a_scan(farm: Sessions) -> None:
    engine = farm.kw["bind"]
    with recorded(engine) as statements, farm() as session:
        session.execute(text("SELECT count(*) FROM task WHERE reason = 'x'"))
    assert len(scans(engine, statements)) == 1
