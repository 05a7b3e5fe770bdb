"""Many at once on a real PostgreSQL: nothing is claimed twice, no cap is broken, no event is missed."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pytest
from sqlalchemy import func, select, update

from farm import jobs
from farm.db.engine import Sessions, transact
from farm.db.tables import Attempt, Job, Project, Submitter
from farm.errors import ConflictError, StaleLeaseError
from farm.jobs import JobState, TaskKind, views
from tests.integration.jobs.hands import Hands, request
from tests.integration.jobs.invariants import broken


def together(*work: Callable[[], object]) -> None:
    """Run all at once; the first error of any is raised."""
    errors: list[BaseException] = []
    gate = threading.Barrier(len(work))

    def run(one: Callable[[], object]) -> None:
        try:
            gate.wait(10)
            one()
        except BaseException as error:  # handed to the caller's thread
            errors.append(error)

    threads = [threading.Thread(target=run, args=(one,)) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_no_task_is_claimed_twice(sessions: Sessions) -> None:
    planner = Hands(sessions)
    for _ in range(4):
        planner.submit()
        planner.plan(10)
    got: list[str] = []

    def claim_all(hands: Hands) -> None:
        while (claim := hands.claim()) is not None:
            got.append(claim.lease.task_id)

    together(*[partial(claim_all, Hands(sessions, f"w{n}")) for n in range(6)])
    assert len(got) == 40
    assert max(Counter(got).values()) == 1
    assert broken(sessions) == []


@pytest.mark.parametrize("capped", ["project", "submitter", "job"])
def test_caps_hold_while_many_claim(sessions: Sessions, capped: str) -> None:
    planner = Hands(sessions)
    planner.submit(max_running=3 if capped == "job" else None)
    planner.plan(12)
    table = {"project": Project, "submitter": Submitter}.get(capped)
    if table is not None:
        with sessions.begin() as session:
            session.execute(update(table).values(max_running=3))
    most: list[int] = []

    def work(hands: Hands) -> None:
        for _ in range(12):
            claim = hands.claim(TaskKind.RENDER)
            if claim is not None:
                with sessions() as session:
                    running = select(func.count()).where(Attempt.state == "running")
                    most.append(session.scalar(running) or 0)
                hands.finish(claim)

    together(*[partial(work, Hands(sessions, f"w{n}")) for n in range(5)])
    assert max(most) <= 3
    planner.work()
    assert broken(sessions) == []


def test_the_last_two_chunks_at_once_open_one_merge(sessions: Sessions) -> None:
    hands = Hands(sessions)
    for _ in range(5):
        job = hands.submit()
        hands.plan(2)
        one, two = hands.must_claim(), hands.must_claim()
        together(lambda c=one: hands.finish(c), lambda c=two: hands.finish(c))
        merge = hands.must_claim()
        assert merge.kind is TaskKind.MERGE
        assert hands.claim() is None
        hands.finish(merge)
        assert hands.state(job) is JobState.COMPLETED
    assert broken(sessions) == []


def test_cancel_against_completion(sessions: Sessions) -> None:
    hands = Hands(sessions)
    seen = set()
    for _ in range(8):
        job = hands.submit()
        hands.plan(1)
        hands.finish(hands.must_claim())
        merge = hands.must_claim()

        def cancel(job: str = job) -> None:
            try:
                hands.command("cancel", job)
            except ConflictError as error:
                assert "completed" in str(error)  # noqa: PT017  (either may win)

        together(lambda m=merge: hands.finish(m), cancel)
        seen.add(hands.state(job))
        assert broken(sessions) == []
    assert seen <= {JobState.CANCELLED, JobState.COMPLETED}


def test_pause_against_failure_and_requeue_against_finish(sessions: Sessions) -> None:
    hands = Hands(sessions)
    for _ in range(4):
        job = hands.submit(max_attempts=1)
        hands.plan(1)
        render = hands.must_claim()

        def pause(job: str = job) -> None:
            try:
                hands.command("pause", job)
            except ConflictError as error:
                assert "failed" in str(error)  # noqa: PT017

        together(lambda r=render: hands.fail(r, "unknown"), pause)
        assert hands.state(job) is JobState.FAILED
        hands.command("requeue", job)
        render = hands.must_claim()

        def finish(render: jobs.Claim = render) -> None:
            try:
                hands.finish(render)
            except StaleLeaseError:
                return

        together(finish, lambda j=job: hands.command("requeue", j, what=0))
        hands.work()
        assert hands.state(job) is JobState.COMPLETED
        assert broken(sessions) == []


def test_one_key_at_once_is_one_job(sessions: Sessions) -> None:
    made: list[jobs.Submitted] = []

    def submit() -> None:
        made.append(transact(sessions, lambda s: jobs.submit(s, request(), idempotency_key="same")))

    together(*[submit] * 6)
    assert len({m.job_id for m in made}) == 1
    assert [m.created for m in made].count(True) == 1
    with sessions() as session:
        assert session.scalar(select(func.count()).select_from(Job)) == 1


def test_a_reader_of_events_misses_none(sessions: Sessions) -> None:
    hands = Hands(sessions)
    job = hands.submit()
    hands.plan(24)
    seen: list[int] = []
    done = threading.Event()

    def read() -> None:
        last = 0
        while True:
            ended = done.is_set()
            with sessions() as session:
                found = views.events_after(session, job, last, limit=50)
            seen.extend(event.id for event in found)
            last = seen[-1]
            if ended and not found:
                return

    def work() -> None:
        together(*[partial(Hands(sessions, f"w{n}").work, chunks=24) for n in range(4)])
        done.set()

    together(read, work)
    with sessions() as session:
        assert seen == [event.id for event in views.events_after(session, job, limit=10_000)]
    assert hands.state(job) is JobState.COMPLETED


def try_it(hands: Hands, claim: jobs.Claim, luck: float) -> None:
    """Finish three of five, else fail or hand back."""
    if claim.kind is TaskKind.PLAN:
        hands.publish(claim, 0, 1, 2)
    if luck < 0.6:
        hands.finish(claim)
    else:
        hands.fail(claim, "unknown" if luck < 0.8 else "interrupted")


def test_a_mob_of_workers_and_people(sessions: Sessions) -> None:
    """Claims, failures, hand-backs and commands at random: afterwards all is whole and can be completed."""
    setup = Hands(sessions)
    ids = [setup.submit(max_attempts=20) for _ in range(3)]

    def worker(number: int) -> None:
        dice, hands = random.Random(number), Hands(sessions, f"w{number}")
        for _ in range(25):
            claim = hands.claim()
            if claim is not None:
                with suppress(StaleLeaseError):
                    try_it(hands, claim, dice.random())

    def person(number: int) -> None:
        dice = random.Random(number)
        for _ in range(15):
            command = dice.choice(["pause", "resume", "requeue", "set_priority", "cancel"])
            extra: dict[str, object] = {"priority": dice.randrange(100)} if command == "set_priority" else {}
            with suppress(ConflictError):
                setup.command(command, dice.choice(ids), **extra)

    together(*[lambda n=n: worker(n) for n in range(4)], *[lambda n=n: person(n) for n in (100, 101)])
    assert broken(sessions) == []
    for job in ids:
        if setup.state(job) in (JobState.PAUSED, JobState.PAUSING):
            setup.command("resume", job)
        if setup.state(job) in (JobState.FAILED, JobState.CANCELLED):
            setup.command("requeue", job)
    setup.work()
    assert {setup.state(job) for job in ids} == {JobState.COMPLETED}
    assert broken(sessions) == []
