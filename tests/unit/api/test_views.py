import json
import logging

import pytest
from flask.testing import FlaskClient

from farm.api.problems import status_of
from farm.api.schemas import ChunkOut
from farm.api.services import Services, StoredFile
from farm.errors import ErrorClass, FarmError, InfrastructureError
from farm.recipe import PRESETS
from farm.store import keys
from tests.unit.api.fakes import FakeLedger
from tests.unit.api.helpers import problem, upload


def all_errors(kind: type[FarmError] = FarmError) -> list[type[FarmError]]:
    return [kind, *(found for child in kind.__subclasses__() for found in all_errors(child))]


def test_every_error_of_the_farm_has_a_status_of_its_own_class() -> None:
    for kind in all_errors():
        name, status = status_of(kind("It broke."))
        assert (status >= 500) == (kind.error_class in _OURS), (kind, name, status)


_OURS = {ErrorClass.UNKNOWN, ErrorClass.OUT_OF_MEMORY, ErrorClass.INTERRUPTED, ErrorClass.INFRASTRUCTURE}


def test_problems_of_http_itself(api: FlaskClient) -> None:
    problem(api.get("/api/v1/nothing"), 404)
    answer = api.delete("/api/v1/jobs")
    problem(answer, 405)
    assert "POST" in answer.headers["Allow"]
    problem(api.post("/api/v1/jobs/x/cancel", data=b"x" * (1 << 21), content_type="application/json"), 413)
    assert problem(api.get("/api/v1/jobs?limit=0"), 422)["errors"][0]["field"] == "query/limit"


def test_a_mistake_of_the_farm_says_nothing_of_its_inside(
    api: FlaskClient, ledger: FakeLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "jobs", lambda query: 1 / 0)
    body = problem(api.get("/api/v1/jobs"), 500)
    assert "division" not in json.dumps(body)


def test_a_given_request_id_is_kept_and_a_bad_one_is_not(api: FlaskClient) -> None:
    assert api.get("/healthz", headers={"X-Request-ID": "abc-1"}).headers["X-Request-ID"] == "abc-1"
    assert api.get("/healthz", headers={"X-Request-ID": "a b"}).headers["X-Request-ID"] != "a b"


def test_jobs_are_listed_and_filtered(api: FlaskClient, ledger: FakeLedger) -> None:
    first, second = (upload(api).json["id"] for _ in range(2))
    ledger.change(first, "running")
    assert [job["id"] for job in api.get("/api/v1/jobs").json["items"]] == [second, first]
    assert [job["id"] for job in api.get("/api/v1/jobs?state=running").json["items"]] == [first]


def test_a_job_is_cancelled_once(api: FlaskClient, ledger: FakeLedger) -> None:
    job_id = upload(api).json["id"]
    assert api.post(f"/api/v1/jobs/{job_id}/cancel", json={"reason": "wrong plate"}).json["state"] == "cancelled"
    assert ledger.log[job_id][-1].reason == "wrong plate"
    problem(api.post(f"/api/v1/jobs/{job_id}/cancel"), 409)
    problem(api.post("/api/v1/jobs/none/cancel"), 404)
    problem(api.post(f"/api/v1/jobs/{job_id}/cancel", json={"why": "?"}), 422)


def test_events_are_resumed_where_the_client_was(api: FlaskClient, ledger: FakeLedger) -> None:
    job_id = upload(api).json["id"]
    ledger.change(job_id, "running")
    ledger.change(job_id, "completed")
    text = api.get(f"/api/v1/jobs/{job_id}/events", headers={"Last-Event-ID": "1"}).get_data(as_text=True)
    assert "retry: " in text
    assert "id: 1\n" not in text
    assert text.index("id: 2\n") < text.index("id: 3\n") < text.index("event: end")
    problem(api.get(f"/api/v1/jobs/{job_id}/events", headers={"Last-Event-ID": "x"}), 422)
    problem(api.get("/api/v1/jobs/none/events"), 404)


def test_live_views_are_bounded_and_given_back(api: FlaskClient, services: Services, ledger: FakeLedger) -> None:
    job_id = upload(api).json["id"]
    open_views = [api.get(f"/api/v1/jobs/{job_id}/events", buffered=False) for _ in range(2)]
    problem(api.get(f"/api/v1/jobs/{job_id}/events"), 503)
    for view in open_views:
        view.close()
    ledger.change(job_id, "cancelled")
    assert api.get(f"/api/v1/jobs/{job_id}/events").status_code == 200


def test_chunks_are_listed(api: FlaskClient, ledger: FakeLedger) -> None:
    job_id = upload(api).json["id"]
    ledger.chunk_views[job_id] = [ChunkOut(index=0, first=0, last=48, seconds=2, state="running", frames_done=7)]
    (chunk,) = api.get(f"/api/v1/jobs/{job_id}/chunks").json["items"]
    assert (chunk["first"], chunk["last"], chunk["frames_done"]) == (0, 48, 7)


def test_a_preview_is_shown_while_there_is_one_and_kept_by_no_cache(api: FlaskClient, services: Services) -> None:
    job_id = upload(api).json["id"]
    url = f"/api/v1/jobs/{job_id}/chunks/3/preview"
    assert api.get(url).status_code == 204
    services.store.put_bytes(keys.preview(job_id, 3), b"a picture")
    answer = api.get(url)
    assert (answer.data, answer.content_type) == (b"a picture", "image/jpeg")
    assert answer.headers["Cache-Control"] == "no-store"
    problem(api.get("/api/v1/jobs/no-such-job/chunks/3/preview"), 404)


def test_what_there_is_to_choose_from(api: FlaskClient) -> None:
    assert {recipe["name"] for recipe in api.get("/api/v1/recipes").json["items"]} == set(PRESETS)
    offered = {recipe["name"]: recipe for recipe in api.get("/api/v1/recipes").json["items"]}
    assert offered["swap"]["usable"]
    assert not offered["restore-restoreformer"]["usable"]
    assert "farm models pull restoreformer-plus-plus" in offered["restore-restoreformer"]["why"]
    assert "h264" in {kind["name"] for kind in api.get("/api/v1/deliverables").json["items"]}
    assert api.get("/api/v1/workers").json == {"items": []}


def test_readiness_names_what_is_away(api: FlaskClient, ledger: FakeLedger) -> None:
    assert api.get("/readyz").json["ok"]
    ledger.fail_with = InfrastructureError("The database refused.", where="PostgreSQL")
    answer = api.get("/readyz")
    assert answer.status_code == 503
    assert [check["name"] for check in answer.json["checks"] if not check["ok"]] == ["database"]
    assert api.get("/healthz").status_code == 200


def test_metrics_count_requests_and_jobs(api: FlaskClient) -> None:
    upload(api)
    text = api.get("/metrics").get_data(as_text=True)
    assert 'farm_api_requests_total{method="POST",route="/api/v1/jobs",status="201"} 1.0' in text
    assert 'farm_jobs{state="queued"} 1.0' in text


def test_the_log_holds_no_file_name_and_no_query(api: FlaskClient, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        upload(api)
        api.get("/objects/jobs/a/plate?signature=secret-value&expires=1")
    assert "Jane" not in caplog.text
    assert "secret-value" not in caplog.text


class TestDownload:
    DATA = bytes(range(256)) * 10

    @pytest.fixture
    def url(self, api: FlaskClient, services: Services, ledger: FakeLedger) -> str:
        job_id = upload(api).json["id"]
        info = services.store.put_bytes("jobs/j/merges/a/h264", self.DATA)
        stored = StoredFile(info.key, info.size, info.sha256, f"{job_id}-h264.mp4")
        ledger.files[job_id, "h264"] = stored
        return f"/api/v1/jobs/{job_id}/deliverables/h264"

    def test_whole(self, api: FlaskClient, url: str) -> None:
        answer = api.get(url)
        assert answer.data == self.DATA
        assert answer.headers["Content-Length"] == str(len(self.DATA))
        assert (
            answer.headers["Content-Disposition"].endswith('-h264.mp4"')
            or "h264.mp4" in answer.headers["Content-Disposition"]
        )
        problem(api.get(url.replace("h264", "prores")), 404)

    @pytest.mark.parametrize(
        ("asked", "first", "last"),
        [("bytes=0-0", 0, 1), ("bytes=100-", 100, 2560), ("bytes=-5", 2555, 2560), ("bytes=2000-9999", 2000, 2560)],
    )
    def test_a_range(self, api: FlaskClient, url: str, asked: str, first: int, last: int) -> None:
        answer = api.get(url, headers={"Range": asked})
        assert answer.status_code == 206
        assert answer.data == self.DATA[first:last]
        assert answer.headers["Content-Range"] == f"bytes {first}-{last - 1}/2560"

    def test_a_range_that_is_not_there(self, api: FlaskClient, url: str) -> None:
        answer = api.get(url, headers={"Range": "bytes=9999-"})
        assert answer.status_code == 416
        assert answer.headers["Content-Range"] == "bytes */2560"

    def test_a_changed_file_is_sent_whole(self, api: FlaskClient, url: str) -> None:
        etag = api.get(url).headers["ETag"]
        same = api.get(url, headers={"Range": "bytes=1-2", "If-Range": etag})
        other = api.get(url, headers={"Range": "bytes=1-2", "If-Range": '"other"'})
        assert (same.status_code, other.status_code) == (206, 200)

    def test_a_signed_link_and_a_forged_one(self, api: FlaskClient, services: Services, url: str) -> None:
        from datetime import timedelta

        link = services.store.signed_url("jobs/j/merges/a/h264", expires=timedelta(minutes=1), filename="a.mp4")
        local = link.removeprefix("http://memory.invalid")
        assert api.get(local).data == self.DATA
        problem(api.get(local.replace("a.mp4", "b.mp4")), 403)
        problem(api.get("/objects/jobs/j/merges/a/h264"), 403)
