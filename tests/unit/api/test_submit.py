import errno
import io
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from farm.api.app import create_app
from farm.api.known import KnownPlates
from farm.api.services import Services
from farm.client import FilePart, Multipart
from farm.errors import InfrastructureError
from farm.media.facts import PlateFacts
from farm.provenance.permit import bind, check, public_key
from farm.store.base import ObjectInfo
from farm.store.memory import MemoryStore
from farm.wakeups import Hurry
from tests.unit.api.fakes import NOW, FakeLedger, plate_facts
from tests.unit.api.helpers import CLIP, FACE, PLATE, problem, upload


@pytest.fixture
def nothing_left(services: Services, ledger: FakeLedger) -> Iterator[None]:
    """What every refused request must leave: no job, no object, no file."""
    yield
    assert ledger.requests == {}
    assert list(services.store.list("")) == []
    assert list((services.settings.home.parent / "scratch").iterdir()) == []


def test_an_upload_becomes_a_job_with_its_objects(api: FlaskClient, services: Services, ledger: FakeLedger) -> None:
    answer = upload(api, options={"title": "Scene 12", "chunk_seconds": 4, "priority": 70})
    assert answer.status_code == 201
    job_id = answer.json["id"]
    assert answer.headers["Location"] == f"/api/v1/jobs/{job_id}"
    request = ledger.requests[job_id]
    assert (request.title, request.chunk_seconds, request.priority) == ("Scene 12", 4, 70)
    assert services.store.get_bytes(request.plate.object_key or "") == PLATE
    assert services.store.get_bytes(request.identities[0].pictures[0].object_key or "") == FACE
    assert request.plate.sha256 == services.store.head(request.plate.object_key or "").sha256  # type: ignore[union-attr]


def test_a_plate_may_be_larger_than_other_requests(
    api: FlaskClient, services: Services, ledger: FakeLedger, tmp_path: Path
) -> None:
    plate = tmp_path / "plate"
    plate.write_bytes(PLATE + bytes(3 << 20))
    object.__setattr__(services.settings, "max_plate_seconds", 1 << 30)
    body = Multipart({"options": '{"recipe": "passthrough"}'}, [FilePart("plate", plate)])
    answer = api.post("/api/v1/jobs", data=b"".join(body.blocks()), content_type=body.content_type)
    assert ledger.requests[answer.json["id"]].plate.size == len(PLATE) + (3 << 20)


def test_keys_and_request_hold_no_file_name(api: FlaskClient, services: Services, ledger: FakeLedger) -> None:
    upload(api)
    kept = " ".join(info.key for info in services.store.list("")) + str(ledger.requests)
    assert "Jane" not in kept
    assert "passwd" not in kept


def test_no_file_of_an_upload_stays_in_the_scratch_folder(api: FlaskClient, services: Services) -> None:
    assert upload(api).status_code == 201
    assert list((services.settings.home.parent / "scratch").iterdir()) == []


def test_the_permit_is_for_this_job_alone(api: FlaskClient, services: Services, ledger: FakeLedger) -> None:
    job_id = upload(api).json["id"]
    request = ledger.requests[job_id]
    assert request.permit is not None
    permit = check(request.permit["token"], public_key(services.permits._key), now=NOW)
    bind(
        permit,
        job=job_id,
        plate_sha256=request.plate.sha256 or "",
        identities=tuple(picture.sha256 for picture in request.identities[0].pictures),
        recipe_digest=request.recipe.digest(),
    )


def test_settings_go_over_those_of_the_preset_and_into_the_permit(
    api: FlaskClient, services: Services, ledger: FakeLedger
) -> None:
    job_id = upload(api, options={"settings": {"swap": {"strength": 0.5}}}).json["id"]
    request = ledger.requests[job_id]
    assert request.recipe.processors[0].settings == {"strength": 0.5}
    assert request.permit is not None
    permit = check(request.permit["token"], public_key(services.permits._key), now=NOW)
    pictures = tuple(picture.sha256 for picture in request.identities[0].pictures)
    plate = request.plate.sha256 or ""
    bind(permit, job=job_id, plate_sha256=plate, identities=pictures, recipe_digest=request.recipe.digest())


@pytest.mark.parametrize(
    ("options", "status", "words"),
    [
        ({"settings": {"swap": {"strength": 7}}}, 422, "'strength' is wrong"),
        ({"settings": {"restore": {"blend": 1}}}, 422, "no processor of kind 'restore'"),
        ({"recipe": "swap-inswapper"}, 403, "'non-commercial', which this deployment does not allow"),
        ({"recipe": "restore-restoreformer"}, 403, "neither on this machine"),
    ],
)
@pytest.mark.usefixtures("nothing_left")
def test_a_recipe_that_cannot_be_rendered_here_is_refused(
    api: FlaskClient, options: dict[str, object], status: int, words: str
) -> None:
    answer = upload(api, options=options)
    assert words in problem(answer, status)["detail"]


def test_a_repeated_key_gives_the_same_job_and_keeps_one_copy(
    api: FlaskClient, services: Services, ledger: FakeLedger
) -> None:
    first, second = upload(api, key="k1"), upload(api, key="k1")
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json["id"] == second.json["id"]
    assert {info.key.split("/")[1] for info in services.store.list("")} == {first.json["id"]}


def test_a_key_used_for_another_request_is_a_conflict(api: FlaskClient, services: Services) -> None:
    first = upload(api, key="k1").json["id"]
    problem(upload(api, key="k1", plate=b"PLATE two"), 409)
    assert {info.key.split("/")[1] for info in services.store.list("")} == {first}


def test_more_identities_come_as_named_parts(api: FlaskClient, ledger: FakeLedger) -> None:
    answer = upload(api, more={"identity.villain": b"another face"})
    labels = [identity.label for identity in ledger.requests[answer.json["id"]].identities]
    assert sorted(labels) == ["identity", "villain"]


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({"plate": None}, "plate"),
        ({"plate": b""}, "the plate"),
        ({"plate": b"just text"}, "the plate"),
        ({"identity": None}, "identity"),
        ({"identity": b"nobody is here"}, "identity"),
        ({"options": "{"}, "options"),
        ({"options": {"recipe": "nope"}}, "recipe"),
        ({"options": {"deliverables": ["nope"]}}, "deliverable"),
        ({"options": {"unknown": 1}}, "options"),
        ({"options": {"priority": 101}}, "options"),
        ({"options": {"plate": "s3://bucket/key"}}, "options"),
        ({"options": {"identities": [{"label": "villain"}]}}, "villain"),
        ({"options": {"mapping": {"mode": "nobody"}}}, "mapping"),
        ({"options": {"mapping": {"mode": "lead", "identity": "stranger"}}}, "mapping"),
        ({"more": {"surprise": b"?"}}, "body"),
        ({"more": {"identity.Not A Label": b"?"}}, "body"),
    ],
)
def test_a_request_that_cannot_be_used_says_where(api: FlaskClient, given: dict[str, object], where: str) -> None:
    body = problem(upload(api, **given), 422)  # type: ignore[arg-type]
    assert body["where"] == where


@pytest.mark.usefixtures("nothing_left")
def test_a_body_that_is_neither_upload_nor_json_is_refused(api: FlaskClient) -> None:
    problem(api.post("/api/v1/jobs", data=b"hello", content_type="text/plain"), 422)


@pytest.mark.usefixtures("nothing_left")
def test_an_upload_that_breaks_off_leaves_nothing(api: FlaskClient) -> None:
    whole = b'--b\r\nContent-Disposition: form-data; name="plate"; filename="f"\r\n\r\nPLATE and mo'
    answer = api.post(
        "/api/v1/jobs",
        input_stream=io.BytesIO(whole),
        content_length=len(whole) + 100,
        content_type="multipart/form-data; boundary=b",
    )
    assert answer.status_code == 400 or answer.json["where"] == "plate"


def test_a_plate_over_the_limit_is_too_large(api_with: Callable[..., FlaskClient]) -> None:
    api = api_with(max_plate_bytes=8)
    assert problem(upload(api), 413)["type"].endswith("too-large")


def test_a_picture_over_the_limit_is_too_large(api_with: Callable[..., FlaskClient]) -> None:
    api = api_with(max_picture_bytes=3)
    assert problem(upload(api), 413)["where"] == "identity"


def test_an_identity_may_be_pictures_and_clips(api: FlaskClient, services: Services, ledger: FakeLedger) -> None:
    data = {"plate": (io.BytesIO(PLATE), "p"), "identity": [(io.BytesIO(FACE), "f"), (io.BytesIO(CLIP), "c")]}
    answer = api.post("/api/v1/jobs", data=data)
    assert answer.status_code == 201, answer.get_data(as_text=True)
    given = ledger.requests[answer.json["id"]].identities[0].pictures
    assert [services.store.get_bytes(file.object_key or "") for file in given] == [FACE, CLIP]
    token = (ledger.requests[answer.json["id"]].permit or {})["token"]
    permit = check(token, public_key(services.permits._key), now=NOW)
    assert set(permit.identities) == {file.sha256 for file in given}


@pytest.mark.parametrize(
    ("settings", "clip", "status"),
    [
        ({"max_clip_bytes": len(CLIP) - 1}, CLIP, 413),
        ({"max_clip_seconds": len(CLIP) - 1}, CLIP, 422),
        ({"max_clips": 0}, CLIP, 422),
        ({}, CLIP + b"nobody", 422),
    ],
    ids=["too large", "too long", "too many", "no face"],
)
def test_a_clip_that_cannot_be_used_says_where(
    api_with: Callable[..., FlaskClient], settings: dict[str, object], clip: bytes, status: int
) -> None:
    assert problem(upload(api_with(**settings), identity=clip), status)["where"] == "identity"


def test_a_plate_that_is_too_long_is_refused(api_with: Callable[..., FlaskClient]) -> None:
    api = api_with(max_plate_seconds=5)
    assert "FARM_MAX_PLATE_SECONDS" in problem(upload(api), 422)["do"]


def test_a_farm_that_asks_for_grants_refuses_by_policy(api_with: Callable[..., FlaskClient]) -> None:
    api = api_with(consent_policy="grant")
    assert "grant" in problem(upload(api), 403)["detail"]
    granted = upload(api, options={"consent": {"level": "A1", "grant_sha256": "ab" * 32}})
    assert granted.status_code == 201


@pytest.mark.usefixtures("nothing_left")
def test_a_database_that_is_away_leaves_no_object(api: FlaskClient, ledger: FakeLedger) -> None:
    ledger.fail_with = InfrastructureError("The database refused.", where="PostgreSQL")
    answer = upload(api)
    problem(answer, 503)
    assert int(answer.headers["Retry-After"]) > 0


def test_a_commit_that_was_not_heard_of_keeps_its_objects(
    api: FlaskClient, services: Services, ledger: FakeLedger
) -> None:
    ledger.fail_with, ledger.commit_unheard = InfrastructureError("The connection was lost."), True
    problem(upload(api), 503)
    (job_id,) = ledger.requests
    assert [info.key for info in services.store.list(f"jobs/{job_id}/")]


class FullStore(MemoryStore):
    def put_file(self, key: str, path: Path, *, content_type: str = "application/octet-stream") -> ObjectInfo:
        if key.endswith("/plate"):
            return super().put_file(key, path, content_type=content_type)
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_is_named_and_leaves_nothing(services: Services, ledger: FakeLedger) -> None:
    store = FullStore()
    full = replace(services, store=store)
    body = problem(upload(create_app(services=full).test_client()), 507)
    assert body["type"].endswith("disk-full")
    assert list(store.list("")) == []
    assert ledger.requests == {}


def test_a_wake_up_that_cannot_be_sent_does_not_fail_the_job(services: Services) -> None:
    def broken() -> None:
        raise ConnectionError("no broker")

    api = create_app(services=replace(services, wake=Hurry(broken))).test_client()
    assert upload(api).status_code == 201


def test_a_plate_that_is_known_is_not_probed_again(services: Services) -> None:
    probed: list[Path] = []

    def probe(path: Path) -> PlateFacts:
        probed.append(path)
        return plate_facts(path)

    api = create_app(services=replace(services, probe=KnownPlates(probe))).test_client()
    assert [upload(api, plate=plate).status_code for plate in (b"PLATE a", b"PLATE a", b"PLATE b")] == [201] * 3
    assert len(probed) == 2
    refused = [upload(api, plate=b"no plate").status_code for _ in range(2)]
    assert refused == [422] * 2
    assert len(probed) == 4


def test_a_folder_store_names_no_object_by_uri(api: FlaskClient) -> None:
    answer = api.post("/api/v1/jobs", json={"plate": "s3://bucket/plate.mov"})
    assert "folder" in problem(answer, 422)["detail"]


def test_only_the_farms_own_bucket_may_be_named(api_with: Callable[..., FlaskClient]) -> None:
    api = api_with(store="s3://mine/prefix")
    problem(api.post("/api/v1/jobs", json={"plate": "s3://theirs/plate.mov"}), 403)


def test_a_deliverable_of_a_size_is_refused_without_one(api: FlaskClient, nothing_left: None) -> None:
    answer = upload(api, options={"deliverables": ["h264-fit"]})
    assert problem(answer, 422)["where"] == "deliverable h264-fit"


def test_a_loudness_goes_with_the_job_and_has_to_be_one_that_there_is(api: FlaskClient, ledger: FakeLedger) -> None:
    answer = upload(api, options={"loudness": "ebu-r128"})
    assert ledger.requests[answer.json["id"]].options == {"loudness": "ebu-r128"}
    answer = upload(api, options={"loudness": "as loud as it gets"})
    assert problem(answer, 422)["where"] == "loudness"


def test_the_size_goes_with_the_job(api: FlaskClient, ledger: FakeLedger) -> None:
    answer = upload(api, options={"deliverables": ["h264-fit"], "max_bytes": 25_000_000})
    assert ledger.requests[answer.json["id"]].options == {"max_bytes": 25_000_000}
