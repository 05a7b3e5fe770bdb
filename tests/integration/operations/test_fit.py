"""Which work goes to which worker, in batches and one after the other, and what is said when none of it moves."""

from __future__ import annotations

import re
from typing import Any

import pytest
from sqlalchemy import text

from farm import jobs
from farm.db.engine import Sessions, transact
from farm.db.enums import RequestedState
from farm.db.tables import Block
from farm.errors import ErrorClass
from farm.jobs import JobState, Slot, TaskKind, fleet
from tests.integration.jobs.hands import Hands, chunk
from tests.integration.operations.conftest import Ask
from tests.unit.api.helpers import upload


def register(sessions: Sessions, worker: str = "w1", **slot: Any) -> None:
    tags = slot.get("tags", ())
    report = fleet.WorkerReport(id=worker, name=worker, tags=tags, slots=(Slot(worker_id=worker, **slot),), rate=3.6)
    transact(sessions, lambda s: fleet.register(s, report))


def test_a_chunk_planned_for_nvenc_goes_only_to_a_slot_that_has_it(sessions: Sessions, api: Ask) -> None:
    register(sessions, codecs=())
    plain = Hands(sessions, codecs=())
    job = plain.submit()
    claim = plain.must_claim(TaskKind.PLAN)
    transact(sessions, lambda s: jobs.publish_chunk(s, claim.lease, chunk(0), ["h264_nvenc"]))
    plain.finish(claim, chunks=1)
    assert plain.claim() is None
    assert api("GET", f"/jobs/{job}/chunks/0/why")["why"] == "No worker has the codecs h264_nvenc."
    assert Hands(sessions, "w2", codecs=("av1_nvenc", "h264_nvenc")).claim() is not None


def test_a_chunk_that_is_planned_anew_for_another_encoder_changes_its_lane(sessions: Sessions) -> None:
    plain = Hands(sessions, codecs=())
    plain.submit()
    claim = plain.must_claim(TaskKind.PLAN)
    for codecs in (["h264_nvenc"], []):
        transact(sessions, lambda s, needs=codecs: jobs.publish_chunk(s, claim.lease, chunk(0), needs))
    plain.finish(claim, chunks=1)
    assert plain.claim() is not None


def test_jobs_of_a_batch_have_one_progress(sessions: Sessions, api: Ask) -> None:
    register(sessions)
    hands = Hands(sessions)
    first = hands.submit(batch="reel 7")
    hands.plan(2)
    hands.work()
    assert hands.state(first) is JobState.COMPLETED
    hands.submit(batch="reel 7")
    hands.plan(2)
    hands.submit(batch="other")
    found = api("GET", "/batches/reel%207")
    assert (found["jobs"], found["states"], found["final"]) == (2, {"completed": 1, "running": 1}, False)
    at = found["progress"]
    assert (at["frames_done"], at["frames_total"], at["chunks_done"], at["chunks_total"]) == (20, 40, 2, 4)
    assert found["gpu_seconds"] > 0
    assert found["cost"] == pytest.approx(found["gpu_seconds"] * 3.6 / 3600)
    assert len(api("GET", "/jobs?batch=reel%207")["items"]) == 2
    api("GET", "/batches/nothing", status=404)


def test_what_a_job_may_say_of_itself_is_kept_and_obeyed(sessions: Sessions, app: Any, api: Ask) -> None:
    http = app.test_client()
    first = upload(http, identity=None, options={"recipe": "passthrough"}).get_json()["id"]
    options = {
        "recipe": "passthrough",
        "project": "film",
        "owner": "ada",
        "batch": "reel",
        "needs": [first],
        "max_running": 1,
        "max_attempts": 2,
        "max_retries": 4,
        "vram_mb": 14_000,
        "tags": ["studio"],
    }
    made = upload(http, identity=None, options=options).get_json()
    assert (made["project"], made["owner"], made["batch"], made["state"]) == ("film", "ada", "reel", "waiting")
    assert (made["max_attempts"], made["max_retries"]) == (2, 4)
    assert api("GET", f"/jobs/{first}")["max_retries"] == 200, "by the setting"
    assert first in made["why"]
    assert api("GET", "/jobs?project=film")["items"][0]["id"] == made["id"]
    missing = upload(http, identity=None, options={"recipe": "passthrough", "needs": ["nothing"]})
    assert missing.status_code == 404


def say_paused(hands: Hands, job: str) -> None:
    hands.command("pause", job, reason="Lunch.")


def say_no_tag(hands: Hands, job: str) -> None:
    register(hands.sessions, "w1", tags=("day",))


def say_sleeping_pool(hands: Hands, job: str) -> None:
    register(hands.sessions, "awake", kinds=(TaskKind.MERGE,))
    register(hands.sessions, "night", tags=("studio",), vram_mb=16_000)
    ask = RequestedState.ASLEEP
    transact(hands.sessions, lambda s: fleet.request_state(s, "night", ask, actor="t"))
    transact(hands.sessions, lambda s: fleet.beat(s, "night"))


def say_small_card(hands: Hands, job: str) -> None:
    register(hands.sessions, "w1", tags=("studio",), vram_mb=8000)


def say_large_card_busy(hands: Hands, job: str) -> None:
    register(hands.sessions, "large", tags=("studio",), vram_mb=24_000)
    register(hands.sessions, "small", tags=("studio",), vram_mb=8000)
    other = Hands(hands.sessions, "large", tags=("studio",), vram_mb=24_000)
    other.submit(tags=["studio"], priority=90)
    assert other.must_claim(TaskKind.PLAN)


def say_old_program(hands: Hands, job: str) -> None:
    with hands.sessions.begin() as session:
        session.execute(text("UPDATE lane SET wire = 99"))
    register(hands.sessions, "w1", tags=("studio",), vram_mb=16_000)


def say_blocked(hands: Hands, job: str) -> None:
    register(hands.sessions, "w1", tags=("studio",), vram_mb=16_000)
    with hands.sessions.begin() as session:
        session.add(Block(worker_id="w1", job_id=job, kind=TaskKind.RENDER, reason="It failed 3."))


@pytest.mark.parametrize(
    ("cause", "sentence"),
    [
        (say_paused, r"It is paused: Lunch\."),
        (say_no_tag, r"No connected worker has the tags studio\."),
        (
            say_sleeping_pool,
            r"Every worker that takes render tasks with the tags studio is asleep, .* told it to be asleep\.",
        ),
        (say_small_card, r"It needs 14000 MB of GPU memory; the largest slot has 8000 MB\."),
        (say_large_card_busy, r"It needs 14000 MB of GPU memory; the largest free slot has 8000 MB\."),
        (say_old_program, r"No worker that could do it is new enough \(wire 99\): .*"),
        (say_blocked, r"Every worker that could do it is blocked for this job: .*"),
    ],
)
def test_a_chunk_that_nobody_takes_says_why(sessions: Sessions, api: Ask, cause: Any, sentence: str) -> None:
    hands = Hands(sessions, "planner", tags=("studio",), vram_mb=16_000)
    job = hands.submit(tags=["studio"], vram_mb=14_000)
    hands.plan(1)
    cause(hands, job)
    found = api("GET", f"/jobs/{job}/chunks/0/why")["why"]
    assert re.fullmatch(sentence, found), found
    assert api("GET", f"/jobs/{job}/why")["why"] == found


def test_a_chunk_at_work_says_who_has_it_and_what_it_does(sessions: Sessions, api: Ask) -> None:
    hands = Hands(sessions)
    job = hands.submit()
    hands.plan(1)
    claim = hands.must_claim(TaskKind.RENDER)
    beat = jobs.Progress(note="building engine")
    jobs.heartbeat(sessions, claim.lease, beat)
    assert re.fullmatch(
        r"Worker w1 has had it for \d+ s: building engine\.", api("GET", f"/jobs/{job}/chunks/0/why")["why"]
    )
    hands.beat(claim, frames=7)
    assert "7 frames done" in api("GET", f"/jobs/{job}/chunks/0/why")["why"]


def test_a_chunk_waits_for_the_mapping(sessions: Sessions, api: Ask) -> None:
    hands = Hands(sessions)
    job = hands.submit("swap")
    claim = hands.must_claim(TaskKind.PLAN)
    hands.publish(claim, 0)
    assert "waits for the mapping" in api("GET", f"/jobs/{job}/chunks/0/why")["why"]


def test_a_blocked_worker_is_seen_and_forgiven(sessions: Sessions, api: Ask) -> None:
    register(sessions, "w1")
    register(sessions, "w2")
    hands = Hands(sessions, "w1")
    job = hands.submit(max_attempts=20)
    hands.plan(4)
    for _ in range(3):
        hands.fail(hands.must_claim(TaskKind.RENDER), ErrorClass.UNKNOWN)
    assert hands.claim(TaskKind.RENDER) is None
    blocks = {worker["id"]: worker["blocks"] for worker in api("GET", "/workers")["items"]}
    assert blocks == {"w1": [f"no render of job {job}: It failed 3 render tasks of this job."], "w2": []}
    assert "It is blocked for 1 job, whose tasks" in api("GET", "/workers/w1/why")["why"]
    assert api("POST", "/workers/w1/forgive", {}) == {"count": 1}
    assert hands.claim(TaskKind.RENDER) is not None
