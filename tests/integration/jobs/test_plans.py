"""No hot statement reads a whole large table: the plans of all that a busy farm runs, as PostgreSQL makes them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from psycopg.errors import Diagnostic
from sqlalchemy import Engine, event, text, update

from bench.farm_fill import Size, fill
from farm import jobs
from farm.db.engine import Sessions, make_engine, make_sessions, transact
from farm.db.tables import Job
from farm.jobs import JobState, Policy, TaskKind, batches, fleet, glance, views, why
from farm.jobs.reconcile import (
    BackoffEnder,
    BudgetKeeper,
    DeadlineWatcher,
    DependencyReleaser,
    Finisher,
    KeptResults,
    LaneCloser,
    LeaseExpirer,
    OutboxDispatcher,
    StaleCleaner,
    Waker,
    WebhookSender,
    WorkerReaper,
)
from farm.orphans import OrphanSweeper
from farm.permits import PermitRenewer, Permits
from farm.removal import JobRemover
from farm.retention import PARTS, Retention
from farm.store import keys
from farm.store.memory import MemoryStore
from tests.integration.jobs.hands import SHA

# with rows in the test's farm, so that the planner's own choice counts
LARGE = {"task", "chunk", "attempt", "event"}
# few rows here, many in a real farm: an index must exist for what is asked, though a scan may be the better choice here
GROWING = {"job", "plate", "deliverable", "outbox", "webhook", "delivery", "fingerprint", "dependency", "identity"}

# PostgreSQL's own account of each statement as it was planned and run, those inside functions too
_ACCOUNT = """
    LOAD 'auto_explain';
    SET auto_explain.log_min_duration = 0; SET auto_explain.log_nested_statements = on;
    SET auto_explain.log_format = json; SET auto_explain.log_level = notice; SET client_min_messages = notice;
    SET plan_cache_mode = auto"""


@contextmanager
def accounts(engine: Engine, setting: str) -> Iterator[list[dict[str, Any]]]:
    """What every new connection of the engine runs meanwhile: its text and its plan."""
    found: list[dict[str, Any]] = []

    def hear(notice: Diagnostic) -> None:
        _, plan, body = (notice.message_primary or "").partition("plan:\n")
        if plan:
            found.append(json.loads(body))

    def watch(connection: Any, _record: Any) -> None:
        connection.add_notice_handler(hear)
        connection.execute(f"{_ACCOUNT}; SET {setting}")
        connection.commit()

    engine.dispose()  # connections that were made before would not be heard
    event.listen(engine, "connect", watch)
    yield found
    event.remove(engine, "connect", watch)
    engine.dispose()


def scanned(node: dict[str, Any]) -> set[str]:
    """The tables that a plan reads from end to end."""
    own = {node["Relation Name"]} if node["Node Type"] == "Seq Scan" else set()
    return own.union(*(scanned(part) for part in node.get("Plans", [])))


def scans(found: list[dict[str, Any]], tables: set[str]) -> list[str]:
    """Each of the tables that a statement reads from end to end, with the statement."""
    return [f"{table}: {run['Query Text']}" for run in found for table in scanned(run["Plan"]) & tables]


@pytest.fixture
def farm(schema_database: str) -> Iterator[Sessions]:
    """40 jobs with 400 chunks each, half of them done, 200 workers at work."""
    engine = make_engine(schema_database)
    fill(engine, Size(projects=8, jobs=40, chunks=16_000, workers=200))
    yield make_sessions(engine)
    engine.dispose()


@pytest.mark.parametrize(("setting", "tables"), [("random_page_cost = 1.1", LARGE), ("enable_seqscan = off", GROWING)])
def test_no_hot_statement_scans_a_large_table(farm: Sessions, setting: str, tables: set[str]) -> None:
    with accounts(farm.kw["bind"], setting) as found:
        work(farm)
    texts = " ".join(run["Query Text"] for run in found)
    for inside in ("FROM lane l", "INSERT INTO attempt", "UPDATE chunk", "UPDATE worker"):
        assert inside in texts, "the account does not show what functions run"
    assert len(found) > 100
    assert scans(found, tables) == []


def work(farm: Sessions) -> None:
    """All that a busy farm runs, once."""
    store = MemoryStore()
    store.put_bytes(keys.plate("nobody"), b"")
    slot = jobs.Slot(worker_id="w7")
    done = jobs.RenderResult(frames=480, outputs={"review": jobs.ObjectOut(key="k", sha256=SHA, size=1)})
    claim = transact(farm, lambda s: jobs.claim(s, slot))
    assert claim is not None
    assert claim.kind is TaskKind.RENDER
    jobs.heartbeat(farm, claim.lease, jobs.Progress(frames_done=1), carries=True)
    transact(farm, lambda s: jobs.reusable(s, claim.lease, SHA))
    followed = jobs.finish_at_once(farm, claim.lease, done, slot)
    assert followed is not None
    following = followed.claim
    assert following is not None
    transact(farm, lambda s: jobs.finish(s, following.lease, done))
    other = transact(farm, lambda s: jobs.claim(s, slot))
    assert other is not None
    transact(farm, lambda s: jobs.fail(s, other.lease, "unknown", "x"))
    transact(farm, lambda s: fleet.beat(s, "w7"))
    transact(farm, lambda s: fleet.bury(s, "w7", [1]))
    transact(farm, lambda s: s.execute(update(Job).values(max_running=1).where(Job.id == claim.lease.job_id)))
    transact(farm, lambda s: jobs.claim(s, slot))
    for service in (
        LeaseExpirer(farm),
        WorkerReaper(farm),
        BackoffEnder(farm),
        BudgetKeeper(farm),
        DeadlineWatcher(farm, every=0),
        DependencyReleaser(farm),
        Finisher(farm),
        Waker(farm, Policy(wake_again_seconds=0)),
        LaneCloser(farm, Policy(wake_again_seconds=0)),
        OutboxDispatcher(farm, lambda _: None),
        StaleCleaner(farm, lambda _: None),
        WebhookSender(farm, lambda *_: 200),
        KeptResults(farm),
        PermitRenewer(farm, Permits(Ed25519PrivateKey.generate(), lambda: datetime.now(UTC))),
        JobRemover(farm, store),
        Retention(farm, store, dict.fromkeys(PARTS, timedelta(days=1))),
        OrphanSweeper(farm, store, age=timedelta(hours=-1), every=0),
    ):
        service.run_once()
    job = claim.lease.job_id
    ask(farm, job)
    command(farm, job)


def command(farm: Sessions, job: str) -> None:
    """What people do with jobs."""
    request = jobs.JobRequest.model_validate(farm().get_one(Job, job).request).model_copy(update={"batch": "reel"})
    made = transact(farm, lambda s: jobs.submit(s, request, idempotency_key="k", facts={})).job_id
    for name in ("pause", "resume", "requeue", "cancel", "delete"):
        what = {"what": "job"} if name == "requeue" else {}
        transact(farm, lambda s, name=name, what=what: getattr(jobs, name)(s, job, actor="t", **what))
    transact(farm, lambda s: jobs.set_priority(s, made, 60, actor="t"))
    transact(farm, lambda s: batches.batch_view(s, "reel"))


def ask(farm: Sessions, job: str) -> None:
    """What pages and programs ask."""
    with farm() as session:
        glance.tasks_now(session)
        glance.queue(session)
        glance.shares(session)
        glance.failing_chunks(session)
        views.list_jobs(session, project="project 1", limit=1)
        views.workers(session)
        views.job_view(session, job)
        views.list_jobs(session, states=[JobState.RUNNING], limit=1)
        views.open_counts(session)
        views.events_after(session, job)
        views.chunks(session, job)
        views.attempts(session, job)
        why.why_job(session, job)


def test_the_check_sees_a_scan(farm: Sessions) -> None:
    with accounts(farm.kw["bind"], "random_page_cost = 1.1") as found, farm() as session:
        session.execute(text("SELECT count(*) FROM task WHERE reason = 'x'"))
    assert len(scans(found, LARGE)) == 1
