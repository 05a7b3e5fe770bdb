"""The control plane at scale: claims, heartbeats, reconciler, fair shares, overhead; PostgreSQL on the same machine.

A private PostgreSQL with its defaults for durability is started in a temporary folder and filled with a million chunks.
The clients are processes that call the same functions as workers do. For comparison the bare round trip of the same
database is measured in the same run: a transaction that updates one row.
"""

from __future__ import annotations

import argparse
import random
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import text

from bench.common import Goal, at_most, finish, noted
from bench.farm_burst import burst
from bench.farm_calls import commands
from bench.farm_fill import OUT, SHA, Size, fill, open_farm, rendered, request
from bench.farm_load import throughput
from farm import jobs
from farm.db.engine import Sessions, make_engine, transact
from farm.db.migrate import upgrade
from farm.jobs import Claim, TaskKind
from farm.jobs.reconcile import (
    BackoffEnder,
    BudgetKeeper,
    DeadlineWatcher,
    DependencyReleaser,
    Finisher,
    LaneCloser,
    LeaseExpirer,
    OutboxDispatcher,
    StaleCleaner,
    Waker,
    WorkerReaper,
)
from farm.worker.control import Control
from tests.postgres import Cluster

Goals = dict[str, Goal]


def bare(url: str, seconds: float = 3) -> Goals:
    """The same database, one client, a transaction that updates one row: what nothing here can be faster than."""
    sessions, count = open_farm(url), 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with sessions.begin() as session:
            session.execute(text("UPDATE project SET weight = weight WHERE name = 'project 0'"))
        count += 1
    return {"bare_updates_per_second": noted(count / seconds, "one client, one row, one commit each")}


def reconciler(url: str) -> Goals:
    """One pass of every service over the full tables, of a farm in which everybody has just been heard of."""
    sessions = open_farm(url)
    with sessions.begin() as session:
        session.execute(text("UPDATE attempt SET lease_until = now() + interval '1 hour' WHERE state = 'running'"))
        session.execute(text("UPDATE worker SET seen_at = now()"))
    services = [
        LeaseExpirer(sessions), WorkerReaper(sessions), BackoffEnder(sessions), BudgetKeeper(sessions),
        DeadlineWatcher(sessions, every=0), DependencyReleaser(sessions), Finisher(sessions),
        OutboxDispatcher(sessions, lambda _: None), Waker(sessions), LaneCloser(sessions),
        StaleCleaner(sessions, lambda _: None),
    ]  # fmt: skip
    taken = []
    for _ in range(3):
        begun = time.perf_counter()
        for service in services:
            service.run_once()
        taken.append(time.perf_counter() - begun)
    return {
        "reconciler_pass_seconds": at_most(
            statistics.median(taken), 2.0, f"median of 3 passes of {len(services)} services"
        )
    }


def sizes(url: str) -> Goals:
    """What the database weighs, and what a finished chunk adds."""
    with open_farm(url)() as session:
        whole = session.scalar(text("SELECT pg_database_size(current_database())")) or 0
        tables = "'task'", "'chunk'", "'attempt'", "'event'"
        parts = sum(session.scalar(text(f"SELECT pg_total_relation_size({t})")) or 0 for t in tables)
        chunks = session.scalar(text("SELECT count(*) FROM chunk")) or 1
    return {
        "database_gib": noted(whole / 2**30, f"{chunks} chunks, half of them done"),
        "bytes_per_chunk": noted(parts / chunks, "rows and indexes of task, chunk, attempt, event"),
    }


def shares(url: str, chunks: int = 500, changes: int = 2_000) -> Goals:
    """Ten projects with weights 1 to 4 want more than there are slots: who holds how many, over `changes` claims.

    There are ten slots for each unit of weight, so that every target is a whole number.
    """
    sessions = open_farm(url)
    weights = [1 + n % 4 for n in range(10)]
    most = 10 * sum(weights)
    for number, weight in enumerate(weights):
        with sessions.begin() as session:
            submitted = jobs.submit(session, request(f"share {number}"))
            session.execute(
                text("UPDATE project SET weight = :w WHERE name = :n"), {"w": weight, "n": f"share {number}"}
            )
        plan_chunks(sessions, submitted.job_id, chunks)
    slots: list[Claim] = []
    slot, control = jobs.Slot(worker_id="s", kinds=(TaskKind.RENDER,)), Control(sessions, jobs.Policy())
    held = [0.0] * len(weights)
    dice = random.Random(7)  # noqa: S311
    for _ in range(changes + most):
        if len(slots) == most:
            done = slots.pop(dice.randrange(most))
            control.finish(done.lease, rendered(10), slot)
        claim = control.claim(slot)
        if claim is None:
            raise RuntimeError("the projects ran out of work")
        slots.append(claim)
        if len(slots) == most:
            for holder in slots:
                held[int(holder.job.project.split()[1])] += 1
    targets = [weight / sum(weights) for weight in weights]
    worst = max(abs(h / sum(held) - t) / t for h, t in zip(held, targets, strict=True))
    return {"fair_share_error": at_most(worst, 0.05, "largest deviation of a project from its target, relative")}


def plan_chunks(sessions: Sessions, job_id: str, number: int) -> None:
    """Do the job's plan task: `number` chunks of 10 frames."""
    slot = jobs.Slot(worker_id="planner", kinds=(TaskKind.PLAN,))
    claim = transact(sessions, lambda s: jobs.claim(s, slot))
    if claim is None or claim.job.id != job_id:
        raise RuntimeError("the plan task was not claimable")
    for n in range(number):
        plan = jobs.ChunkPlan(
            position=n, first=n * 10, last=n * 10 + 10, seconds=10, segment_key="bench", segment_sha256=SHA,
            segment_size=1,
        )  # fmt: skip
        transact(sessions, lambda s, plan=plan: jobs.publish_chunk(s, claim.lease, plan))
    transact(sessions, lambda s: jobs.finish(s, claim.lease, jobs.PlanResult(chunks=number, frames=number * 10)))


def overhead(url: str, chunk_seconds: float = 1.0) -> Goals:
    """A job of 100 chunks on 8 slots whose renders are sleeps of one second: all that is not sleep is the farm's."""
    sessions = open_farm(url, pool=10)
    with sessions.begin() as session:
        job_id = jobs.submit(session, request("overhead")).job_id
    plan_chunks(sessions, job_id, 100)
    ended: list[float] = []

    def work(number: int) -> None:
        slot, control = jobs.Slot(worker_id=f"o{number}", kinds=(TaskKind.RENDER,)), Control(sessions, jobs.Policy())
        while (claim := control.claim(slot)) is not None:
            time.sleep(chunk_seconds)
            control.finish(claim.lease, rendered(10), slot)
            ended.append(time.monotonic())

    begun = time.monotonic()
    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    merge = transact(sessions, lambda s: jobs.claim(s, jobs.Slot(worker_id="o", kinds=(TaskKind.MERGE,))))
    if merge is None:
        raise RuntimeError("the merge was not claimable")
    transact(sessions, lambda s: jobs.finish(s, merge.lease, jobs.MergeResult(deliverables={"review": OUT})))
    completed = time.monotonic()
    ideal = -(-100 // 8) * chunk_seconds
    return {
        "overhead_ratio": at_most((max(ended) - begun) / ideal, 1.05, f"ideal: {ideal:.0f} s"),
        "last_chunk_to_completed_seconds": at_most(completed - max(ended), 2.0, "with a merge that takes no time"),
    }


@contextmanager
def private_database(durable: bool) -> Iterator[Callable[[str], str]]:
    """Makes migrated databases on a server of its own."""
    folder = Path(tempfile.mkdtemp(prefix="facefarm-bench-"))
    cluster = Cluster(folder, durable=durable)

    def make(name: str) -> str:
        cluster.execute(f"CREATE DATABASE {name}")
        upgrade(cluster.url(name))
        return cluster.url(name)

    try:
        cluster.start()
        yield make
    finally:
        cluster.stop()
        shutil.rmtree(folder)


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.farm", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--chunks", type=int, default=1_000_000, help="chunks in the tables")
    parser.add_argument("--seconds", type=float, default=30, help="length of the throughput run")
    arguments = parser.parse_args()
    size = Size(chunks=arguments.chunks)
    goals: Goals = {}
    with private_database(durable=True) as make:
        small = make("small")
        for section in (overhead, shares, burst):
            say(section.__doc__ or section.__name__)
            goals.update(section(small))
        large = make("large")
        say(f"Filling the tables with {size.chunks} chunks.")
        begun = time.monotonic()
        fill(make_engine(large), size)
        goals["fill_seconds"] = noted(time.monotonic() - begun, f"{size.chunks} chunks in {size.jobs} jobs")
        goals.update(sizes(large))
        say("Throughput.")
        goals.update(bare(large))
        goals.update(throughput(large, size, arguments.seconds))
        goals.update(commands(large))
        goals.update(reconciler(large))
    return finish("farm", goals)


def say(words: str) -> None:
    print(words.splitlines()[0], file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
