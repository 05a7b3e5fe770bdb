"""What operators do, by the API, on a real database."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import func, update

from farm.api.services import Services
from farm.db.engine import Sessions, transact
from farm.db.tables import Block, Job, Worker
from farm.errors import ErrorClass
from farm.jobs import JobState, Slot, TaskKind, fleet
from farm.provenance.permit import check, public_key
from farm.recipe import Recipe, preset, tuned
from farm.retention import Retention
from farm.store.memory import MemoryStore
from tests.integration.jobs.hands import Hands
from tests.integration.operations.conftest import Ask


def fail_chunk(hands: Hands) -> str:
    """A job of one chunk, which cannot be rendered."""
    job = hands.submit()
    hands.plan(1)
    hands.fail(hands.must_claim(TaskKind.RENDER), ErrorClass.RECIPE, "Frame 3 cannot be decoded.")
    return job


def test_a_failed_chunk_is_accepted_as_it_is(sessions: Sessions, api: Ask) -> None:
    hands = Hands(sessions)
    job = fail_chunk(hands)
    assert hands.state(job) is JobState.FAILED
    api("POST", f"/jobs/{job}/chunks/0/accept", {}, status=422)
    api("POST", f"/jobs/{job}/chunks/7/accept", {"reason": "It is black."}, status=404)
    assert api("POST", f"/jobs/{job}/chunks/0/accept", {"reason": "It is black."})["state"] == "running"
    claim = hands.must_claim(TaskKind.RENDER)
    assert claim.chunk is not None
    assert claim.chunk.as_is
    hands.finish(claim)
    hands.work()
    api("POST", f"/jobs/{job}/chunks/0/accept", {"reason": "Again."}, status=409)


@pytest.mark.parametrize(("what", "tasks"), [("failed", 2), ("job", 3), (0, 2)])
def test_work_is_done_again(sessions: Sessions, api: Ask, what: str | int, tasks: int) -> None:
    hands = Hands(sessions)
    job = fail_chunk(hands)
    assert not api("POST", f"/jobs/{job}/requeue", {"what": what})["final"]
    assert hands.work(chunks=1) == tasks
    assert hands.state(job) is JobState.COMPLETED
    api("POST", f"/jobs/{job}/requeue", {"what": "everything"}, status=422)


def test_a_priority_changes_what_is_claimed_next(sessions: Sessions, api: Ask) -> None:
    hands = Hands(sessions)
    hands.submit()
    urgent = hands.submit()
    assert api("POST", f"/jobs/{urgent}/priority", {"priority": 90})["priority"] == 90
    assert hands.must_claim().lease.job_id == urgent
    api("POST", f"/jobs/{urgent}/priority", {"priority": 101}, status=422)


def test_why_is_answered_for_jobs_chunks_and_workers(sessions: Sessions, api: Ask) -> None:
    hands = Hands(sessions)
    job = hands.submit()
    assert api("GET", f"/jobs/{job}/why")["why"] == "No worker is connected."
    hands.plan(1)
    assert "No worker" in api("GET", f"/jobs/{job}/chunks/0/why")["why"]
    api("GET", f"/jobs/{job}/chunks/4/why", status=404)
    api("GET", "/workers/nobody/why", status=404)
    register(sessions)
    assert api("GET", "/workers/w1/why")["why"] == "No ready task fits its kinds, tags, memory or models."


def register(sessions: Sessions) -> None:
    report = fleet.WorkerReport(id="w1", name="w1", slots=(Slot(worker_id="w1", kinds=(TaskKind.MERGE,)),))
    transact(sessions, lambda s: fleet.register(s, report))


def test_workers_are_put_to_sleep_and_woken(sessions: Sessions, api: Ask) -> None:
    register(sessions)
    hands = Hands(sessions)
    hands.submit()
    (worker,) = api("POST", "/workers/w1/state", {"state": "asleep", "reason": "Cleaning."})["items"]
    assert worker["requested"] == "asleep"
    assert hands.claim() is None
    (worker,) = api("POST", "/workers/w1/state", {"state": "awake"})["items"]
    assert worker["requested"] is None
    assert hands.claim() is not None
    api("POST", "/workers/w1/state", {"state": "happy"}, status=422)
    api("POST", "/workers/w2/state", {"state": "awake"}, status=404)


def test_a_worker_that_must_stop_now_hands_its_task_back(sessions: Sessions, api: Ask) -> None:
    register(sessions)
    hands = Hands(sessions)
    hands.submit()
    claim = hands.must_claim()
    api("POST", "/workers/w1/state", {"state": "restart", "now": True})
    answer = hands.beat(claim)
    assert (answer.alive, answer.reason) == (False, "draining")


def test_a_worker_is_forgiven(sessions: Sessions, api: Ask) -> None:
    hands = Hands(sessions)
    job = hands.submit()
    with sessions.begin() as session:
        session.add(Block(worker_id="w1", job_id=job, kind=TaskKind.PLAN, reason="It failed 3 tasks."))
    assert hands.claim() is None
    assert api("POST", "/workers/w1/forgive", {"job_id": job}) == {"count": 1}
    assert hands.claim() is not None


def test_webhooks_are_added_listed_replayed_and_removed(sessions: Sessions, api: Ask) -> None:
    made = api("POST", "/webhooks", {"url": "https://h.example/x", "secret": "s" * 16}, status=201)
    (listed,) = api("GET", "/webhooks")["items"]
    assert listed == made
    assert "secret" not in listed
    Hands(sessions).submit()
    assert api("POST", f"/webhooks/{made['id']}/replay", {})["count"] >= 1
    assert api("DELETE", f"/webhooks/{made['id']}") == {"count": 1}
    assert api("GET", "/webhooks") == {"items": []}
    api("DELETE", f"/webhooks/{made['id']}", status=404)
    api("POST", "/webhooks", {"url": "ftp://h.example", "secret": "s" * 16}, status=422)


def test_a_project_gets_a_budget_and_a_cap(sessions: Sessions, api: Ask) -> None:
    hands = Hands(sessions)
    hands.submit()
    changed = api("POST", "/projects/default", {"budget_gpu_seconds": 5, "budget_action": "cancel", "max_running": 0})
    assert (changed["budget_gpu_seconds"], changed["budget_action"], changed["max_running"]) == (5, "cancel", 0)
    assert hands.claim() is None
    changed = api("POST", "/projects/default", {"max_running": None})
    assert (changed["budget_gpu_seconds"], changed["max_running"]) == (5, None)
    assert hands.claim() is not None
    assert [item["name"] for item in api("GET", "/projects")["items"]] == ["default"]
    api("POST", "/projects/default", {"weight": 0}, status=422)


def test_retention_says_what_is_due_and_removes_it_once(sessions: Sessions, tmp_path: Path) -> None:
    hands, store = Hands(sessions), MemoryStore()
    old, young = hands.submit(), hands.submit()
    for job in (old, young):
        hands.work()
        for name in ("segments/000000", "chunks/000000/a/ffv1", "merges/a/ffv1", "plate"):
            store.put_bytes(f"jobs/{job}/{name}", b"12345")
    with sessions.begin() as session:
        ten_days = func.clock_timestamp() - func.make_interval(0, 0, 0, 10)
        session.execute(update(Job).where(Job.id == old).values(finished_at=ten_days))
    keeper = Retention(sessions, store, {"working": timedelta(days=7), "inputs": timedelta(days=30)})
    (due,) = keeper.due()
    assert (due.job_id, due.part, due.objects, due.size) == (old, "working", 2, 10)
    assert len(list(store.list(""))) == 8, "a dry run removes nothing"
    assert keeper.run_once() == 1
    assert sorted(info.key for info in store.list(f"jobs/{old}/")) == [f"jobs/{old}/merges/a/ffv1", f"jobs/{old}/plate"]
    assert len(list(store.list(f"jobs/{young}/"))) == 4
    assert keeper.due() == []


def test_a_worker_that_had_left_is_wanted_again(sessions: Sessions, api: Ask) -> None:
    register(sessions)
    transact(sessions, lambda s: fleet.leave(s, "w1", "Told to."))
    api("POST", "/workers/w1/state", {"state": "awake"})
    assert transact(sessions, lambda s: fleet.requested(s, "w1")) == "awake"
    register(sessions)
    with sessions() as session:
        assert session.get_one(Worker, "w1").requested is None


def test_an_ended_job_gets_another_recipe_and_a_permit_for_it(sessions: Sessions, services: Services, api: Ask) -> None:
    hands = Hands(sessions)
    job = hands.submit("swap")
    api("POST", f"/jobs/{job}/requeue", {"recipe": "swap"}, status=409)
    hands.work(mapping={"mode": "lead"})
    assert hands.state(job) is JobState.COMPLETED
    api("POST", f"/jobs/{job}/requeue", {"recipe": "nothing"}, status=422)
    api("POST", f"/jobs/{job}/requeue", {"recipe": "passthrough"}, status=422)
    api("POST", "/jobs/nothing/requeue", {"recipe": "swap"}, status=404)
    changed = {"recipe": "swap", "settings": {"swap": {"strength": 0.5}}}
    assert api("POST", f"/jobs/{job}/requeue", changed)["state"] == "running"
    with sessions() as session:
        row = session.get_one(Job, job)
    recipe = Recipe.model_validate(row.request["recipe"])
    assert recipe == tuned(preset("swap"), {"swap": {"strength": 0.5}})
    assert row.permit is not None
    held = check(row.permit["token"], public_key(services.permits._key), now=services.permits.now())
    assert (held.job, held.recipe_digest) == (job, recipe.digest())
