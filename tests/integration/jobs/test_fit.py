"""Chunks are claimed by slots in which their recipe fits, as it was measured; none waits for a slot that is gone."""

from __future__ import annotations

from sqlalchemy import select, update

from farm.db.engine import Sessions, transact
from farm.db.enums import WorkerState
from farm.db.tables import Event, Lane, Task, Worker
from farm.jobs import Slot, TaskKind, TaskState, fleet
from farm.jobs.fit import Measured, fitting, learn
from farm.jobs.reconcile import Refitter
from farm.jobs.why import why_task
from farm.recipe import preset
from tests.integration.jobs.hands import Hands, request

RECIPE = preset("passthrough").digest()
SMALL, BIG = 8_000, 24_000


def measured(needs: int, recipe: str = RECIPE, card: str = "a card/24576") -> Measured:
    return Measured(recipe=recipe, card=card, needs_mb=needs, seen_mb=2 * needs, batch=8)


def tell(sessions: Sessions, *lines: Measured) -> None:
    transact(sessions, lambda session: learn(session, lines))


def arrive(sessions: Sessions, name: str, vram: int, *tags: str) -> Hands:
    slot = Slot(worker_id=name, vram_mb=vram, tags=tags)
    report = fleet.WorkerReport(id=name, name=name, slots=(slot,), tags=tags)
    transact(sessions, lambda session: fleet.register(session, report))
    return Hands(sessions, name, vram_mb=vram, tags=tags)


def leave(sessions: Sessions, name: str) -> None:
    with sessions.begin() as session:
        session.execute(update(Worker).where(Worker.id == name).values(state=WorkerState.OFFLINE))


def lanes(sessions: Sessions, job_id: str) -> set[int]:
    with sessions() as session:
        wanted = select(Lane.vram_mb).join(Task, Task.lane_id == Lane.id)
        return set(session.scalars(wanted.where(Task.job_id == job_id, Task.kind == TaskKind.RENDER)))


def refitted(sessions: Sessions) -> int:
    return Refitter(sessions, every=0).run_once()


def test_a_recipe_that_was_measured_is_left_to_slots_in_which_it_fits(sessions: Sessions) -> None:
    small, big = arrive(sessions, "small", SMALL), arrive(sessions, "big", BIG)
    tell(sessions, measured(9_000))
    job = small.submit()
    small.plan(2)
    assert lanes(sessions, job) == {9_000}
    assert small.claim() is None
    assert big.must_claim().kind is TaskKind.RENDER
    assert small.claim() is None
    with sessions() as session:
        waits = select(Task).where(Task.job_id == job, Task.kind == TaskKind.RENDER, Task.state == TaskState.READY)
        said = why_task(session, session.scalars(waits).one())
    assert said == f"It needs 9000 MB of GPU memory; the largest free slot has {SMALL} MB."


def test_what_is_learnt_while_a_job_renders_counts_for_the_chunks_that_wait(sessions: Sessions) -> None:
    small, big = arrive(sessions, "small", SMALL), arrive(sessions, "big", BIG)
    job = small.submit()
    small.plan(3)
    running = small.must_claim()
    tell(sessions, measured(SMALL + 1))  # a slot's memory ran out with the smallest batch
    assert refitted(sessions) == 3
    assert small.claim() is None
    small.finish(running)
    assert big.must_claim().job.id == job
    with sessions() as session:
        said = session.scalars(select(Event.reason).where(Event.job_id == job, Event.kind == "job.needs")).all()
    assert said == [f"Its chunks go to slots with {SMALL + 1} MB of GPU memory or more."]


def test_chunks_do_not_wait_for_a_slot_that_has_gone(sessions: Sessions) -> None:
    small = arrive(sessions, "small", SMALL)
    arrive(sessions, "big", BIG)
    tell(sessions, measured(9_000))
    job = small.submit()
    small.plan(2)
    reconciler = Refitter(sessions, every=0)
    assert reconciler.run_once() == 0
    leave(sessions, "big")
    assert small.claim() is None
    assert reconciler.run_once() == 2
    assert lanes(sessions, job) == {SMALL}
    assert small.must_claim().job.id == job
    arrive(sessions, "big", BIG)
    assert reconciler.run_once() == 2  # the one that runs goes back there if it fails
    assert lanes(sessions, job) == {9_000}
    assert small.claim() is None


def test_a_farm_of_processors_takes_what_only_cards_were_measured_with(sessions: Sessions) -> None:
    cpu = arrive(sessions, "cpu", 0)
    tell(sessions, measured(9_000))
    cpu.submit()
    cpu.plan(1)
    assert cpu.must_claim().kind is TaskKind.RENDER


def test_what_the_request_says_is_never_lowered(sessions: Sessions) -> None:
    small = arrive(sessions, "small", SMALL)
    tell(sessions, measured(100))
    job = small.submit(vram_mb=20_000)
    with sessions.begin() as session:  # a plan needs no memory
        assert session.scalars(select(Lane.vram_mb).where(Lane.kind == TaskKind.PLAN)).one() == 0
    small.plan(1)
    assert refitted(sessions) == 0
    assert lanes(sessions, job) == {20_000}
    assert small.claim() is None


def test_only_slots_with_the_jobs_tags_count(sessions: Sessions) -> None:
    arrive(sessions, "other", BIG)
    film = arrive(sessions, "film", SMALL, "film")
    tell(sessions, measured(9_000))
    job = film.submit(tags=["film"])
    film.plan(1)
    assert lanes(sessions, job) == {SMALL}
    assert film.must_claim().job.id == job


def test_the_newest_word_of_a_card_counts_and_the_largest_of_all_cards(sessions: Sessions) -> None:
    arrive(sessions, "big", BIG)
    tell(sessions, measured(9_000), measured(7_000, card="another/16384"), measured(20_000, recipe="0" * 64))
    tell(sessions, measured(6_000))
    with sessions() as session:
        assert fitting(session, request(vram_mb=10)).vram_mb == 7_000
