"""The client, real HTTP, the API, real PostgreSQL and a real store; a worker's hands without pictures."""

from __future__ import annotations

import io
import threading
from pathlib import Path

import pytest
from sqlalchemy import func, select

from farm.api.ledger import PostgresLedger
from farm.api.schemas import EventOut, IdentityIn, JobIn, JobOut
from farm.api.services import Services
from farm.client import Client
from farm.db.engine import Sessions
from farm.db.tables import Job, Outbox
from farm.errors import ConflictError, InfrastructureError, InputError, NotFoundError, PolicyError
from farm.jobs import JobState
from farm.store import keys
from tests.integration.jobs.hands import Hands
from tests.unit.api.helpers import FACE, PLATE


@pytest.fixture
def plate(tmp_path: Path) -> Path:
    path = tmp_path / "Jane's plate.mp4"
    path.write_bytes(PLATE)
    return path


@pytest.fixture
def face(tmp_path: Path) -> Path:
    path = tmp_path / "Jane.jpg"
    path.write_bytes(FACE)
    return path


def submit(client: Client, plate: Path, *, key: str | None = None, title: str = "Reel") -> JobOut:
    options = JobIn(title=title, recipe="passthrough", deliverables=("review",))
    return client.submit(options, plate=plate, idempotency_key=key)


def test_from_submission_to_download(
    client: Client, plate: Path, sessions: Sessions, services: Services, tmp_path: Path
) -> None:
    job = submit(client, plate)
    assert (job.state, job.title, job.final) == ("queued", "Reel", False)
    assert "No worker" in job.why
    hands = Hands(sessions)
    hands.plan(2)
    assert [(c.first, c.last, c.state) for c in client.chunks(job.id).items] == [(0, 10, "ready"), (10, 20, "ready")]
    while (claim := hands.claim()) is not None:
        if claim.kind == "merge":
            services.store.put_bytes(f"merge/{claim.lease.attempt_id}", b"!")
        hands.finish(claim)
    done = client.job(job.id)
    assert (done.state, done.progress.frames_done, done.progress.chunks_done) == ("completed", 20, 2)
    (file,) = done.deliverables
    assert (file.name, file.filename) == ("review", f"{job.id}-review.mp4")
    out = io.BytesIO()
    assert client.download(job.id, "review", out) == 1
    assert out.getvalue() == b"!"


def test_events_arrive_while_they_happen_and_end_with_the_job(client: Client, plate: Path, sessions: Sessions) -> None:
    job_id = submit(client, plate).id
    seen: list[EventOut] = []
    first = threading.Event()

    def follow() -> None:
        for event in client.events(job_id):
            seen.append(event)
            first.set()

    thread = threading.Thread(target=follow)
    thread.start()
    assert first.wait(10)
    Hands(sessions).work()
    thread.join(20)
    assert not thread.is_alive()
    assert [event.after for event in seen if event.kind == "job.state"] == ["queued", "running", "merging", "completed"]
    assert [event.id for event in seen] == sorted({event.id for event in seen})


def test_one_key_makes_one_job_also_when_two_submit_at_once(
    url: str, plate: Path, sessions: Sessions, services: Services
) -> None:
    made: list[str] = []
    barrier = threading.Barrier(4)

    def one() -> None:
        client = Client(url)
        barrier.wait()
        made.append(submit(client, plate, key="same").id)
        client.close()

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 4
    assert len(set(made)) == 1
    with sessions() as session:
        assert session.scalar(select(func.count()).select_from(Job)) == 1
    assert {info.key.split("/")[1] for info in services.store.list("jobs/")} == set(made)


def test_a_key_used_for_something_else_is_a_conflict(client: Client, plate: Path) -> None:
    submit(client, plate, key="k")
    with pytest.raises(ConflictError, match="another request"):
        submit(client, plate, key="k", title="Another")


def test_a_swap_with_its_pictures(client: Client, plate: Path, face: Path, sessions: Sessions) -> None:
    mapping = {"mode": "all", "identity": "identity"}
    options = JobIn(deliverables=("h264",), identities=(IdentityIn(face=1),), mapping=mapping)
    job_id = client.submit(options, plate=plate, pictures={"identity": [face, face]}).id
    with sessions() as session:
        request = session.get_one(Job, job_id).request
    (identity,) = request["identities"]
    assert (identity["face"], len(identity["pictures"]), request["mapping"]["mode"]) == (1, 2, "all")
    assert "Jane" not in str(request)


def test_a_job_waits_for_a_mapping_that_a_person_chooses(
    client: Client, plate: Path, face: Path, sessions: Sessions
) -> None:
    job_id = client.submit(JobIn(choose_mapping=True), plate=plate, pictures={"identity": [face]}).id
    hands = Hands(sessions)
    hands.plan(1)
    hands.finish(hands.must_claim())
    waiting = client.job(job_id)
    assert (waiting.state, waiting.cast) == ("awaiting_cast", [{"id": "m1"}])
    with pytest.raises(InputError):
        client.choose_mapping(job_id, {"mode": "cast"})
    chosen = client.choose_mapping(job_id, {"mode": "cast", "assignments": {"m1": "identity"}})
    assert chosen.state == "running"


def test_commands_and_their_refusals(client: Client, plate: Path, sessions: Sessions) -> None:
    job_id = submit(client, plate).id
    assert client.command(job_id, "pause").state == "paused"
    assert client.command(job_id, "resume").state == "queued"
    assert client.command(job_id, "cancel", "wrong plate").reason == "wrong plate"
    with pytest.raises(ConflictError):
        client.command(job_id, "pause")
    assert client.command(job_id, "requeue").state in ("queued", "running")
    with pytest.raises(NotFoundError):
        client.command("01NOTHING", "cancel")
    assert Hands(sessions).state(job_id) is not JobState.CANCELLED


def test_lists_page_by_cursor_and_group_states(client: Client, plate: Path) -> None:
    ids = [submit(client, plate, title=str(number)).id for number in range(3)]
    client.command(ids[1], "cancel")
    page = client.jobs(limit=2)
    assert [job.id for job in page.items] == [ids[2], ids[1]]
    assert [job.id for job in client.jobs(limit=2, cursor=page.next).items] == [ids[0]]
    assert [job.id for job in client.jobs(state="open").items] == [ids[2], ids[0]]
    assert [job.id for job in client.jobs(state="final").items] == [ids[1]]
    for wrong in ({"state": "nowhere"}, {"cursor": "x"}):
        with pytest.raises(InputError):
            client.jobs(**wrong)


def test_what_cannot_be_used_leaves_nothing(
    client: Client, plate: Path, tmp_path: Path, sessions: Sessions, services: Services
) -> None:
    text = tmp_path / "text.mp4"
    text.write_bytes(b"no video at all")
    nobody = tmp_path / "nobody.jpg"
    nobody.write_bytes(b"nobody")
    with pytest.raises(InputError, match="not a video"):
        submit(client, text)
    with pytest.raises(InputError, match="no face"):
        client.submit(JobIn(), plate=plate, pictures={"identity": [nobody]})
    with pytest.raises(PolicyError, match="visible label"):
        client.submit(JobIn(consent={"clean_master": True}), plate=plate, pictures={"identity": [plate]})
    with sessions() as session:
        assert session.scalar(select(func.count()).select_from(Job)) == 0
        assert session.scalar(select(func.count()).select_from(Outbox)) == 0
    assert list(services.store.list("")) == []
    assert list((tmp_path / "scratch").iterdir()) == []


def test_the_ledger_knows_whether_it_is_ready_and_what_exists(services: Services, sessions: Sessions) -> None:
    assert isinstance(services.ledger, PostgresLedger)
    services.ledger.check()
    assert not services.ledger.exists("01NOTHING")


def test_a_farm_that_is_away_is_said_so(plate: Path) -> None:
    client = Client("http://127.0.0.1:9", sleep=lambda seconds: None)
    with pytest.raises(InfrastructureError, match="does not answer"):
        client.job("x")
    client.close()


def test_a_large_upload_is_sent_in_pieces(client: Client, tmp_path: Path, services: Services) -> None:
    object.__setattr__(services.settings, "max_plate_seconds", 1 << 40)
    large = tmp_path / "large.mp4"
    with large.open("wb") as out:
        out.write(b"PLATE")
        out.truncate(24 << 20)
    moved: list[int] = []
    options = JobIn(recipe="passthrough", deliverables=("review",))
    job_id = client.submit(options, plate=large, on_sent=moved.append).id
    assert max(moved) <= 1 << 20
    assert sum(moved) > 24 << 20
    info = services.store.head(keys.plate(job_id))
    assert info is not None
    assert info.size == 24 << 20
