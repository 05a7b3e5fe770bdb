"""The cast and the account of a job, over the wire."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import pytest
from flask.testing import FlaskClient

from farm.api.services import CastRecord, Services
from farm.faces.cast_sheet import describe_members
from farm.faces.member import Cast
from farm.faces.report import summarise
from farm.store import keys
from tests.unit.api.fakes import FakeLedger
from tests.unit.api.helpers import upload
from tests.unit.faces.people import facts, identity
from tests.unit.faces.test_cast_edit import cast
from tests.unit.faces.test_report import FRAMES


@pytest.fixture
def job(api: FlaskClient, services: Services, ledger: FakeLedger) -> str:
    """A job that waits for its mapping."""
    job_id: str = upload(api, options={"choose_mapping": True}).json["id"]
    found = cast()
    services.store.put_bytes(keys.cast(job_id), found.to_bytes())
    members = tuple(member["id"] for member in describe_members(found, float))
    record = CastRecord(keys.cast(job_id), True, facts=facts().model_dump(mode="json"), members=members)
    ledger.casts[job_id] = record
    ledger.change(job_id, "awaiting_cast")
    return job_id


def members(api: FlaskClient, job: str) -> dict[str, list[int]]:
    found: dict[str, Any] = api.get(f"/api/v1/jobs/{job}/cast").json
    return {m["id"]: [part["number"] for part in m["appearances"]] for m in found["members"]}


def test_the_cast_is_listed_with_times(api: FlaskClient, job: str) -> None:
    found = api.get(f"/api/v1/jobs/{job}/cast").json
    assert (found["editable"], found["identities"], found["frames_seen"]) == (True, ["identity"], 206)
    lead = found["members"][0]
    assert (lead["id"], lead["screen_seconds"], lead["sightings"]) == ("person-1", 6.0, 12)
    assert (lead["first_seconds"], lead["last_seconds"], lead["last"]) == (0.0, 8.542, "00:00:08.542")


def test_pictures_are_served(api: FlaskClient, job: str) -> None:
    sheet = api.get(f"/api/v1/jobs/{job}/cast/sheet.png")
    assert sheet.content_type == "image/png"
    assert cv2.imdecode(np.frombuffer(sheet.data, np.uint8), cv2.IMREAD_COLOR).shape[0] == 3 * 184
    lead = api.get(f"/api/v1/jobs/{job}/cast/person-1.jpg")
    assert (lead.content_type, lead.data) == ("image/jpeg", cast().members[0].thumbnail)
    assert api.get(f"/api/v1/jobs/{job}/cast/appearances/3.jpg").data == cast().members[1].thumbnail
    assert api.get(f"/api/v1/jobs/{job}/cast/person-7.jpg").status_code == 404
    assert api.get(f"/api/v1/jobs/{job}/cast/appearances/9.jpg").status_code == 404


def test_people_are_merged_and_split_until_the_mapping_is_decided(
    api: FlaskClient, services: Services, ledger: FakeLedger, job: str
) -> None:
    merged = api.post(f"/api/v1/jobs/{job}/cast/merge", json={"into": "person-2", "others": ["person-3"]})
    assert merged.status_code == 200
    assert members(api, job) == {"person-1": [1, 2], "person-2": [3, 4]}
    assert (
        api.post(f"/api/v1/jobs/{job}/cast/split", json={"member": "person-1", "appearances": [2]}).status_code == 200
    )
    assert members(api, job) == {"person-2": [3, 4], "person-1": [1], "person-4": [2]}
    assert ledger.log[job][-1].reason == "1 appearances of person-1 became person-4."
    ids = ledger.casts[job].members
    assert set(ids) == {"person-1", "person-2", "person-4"}
    wrong = api.post(f"/api/v1/jobs/{job}/mapping", json={"mode": "cast", "assignments": {"person-3": "identity"}})
    assert (wrong.status_code, "no cast member 'person-3'" in wrong.json["detail"]) == (422, True)
    right = api.post(f"/api/v1/jobs/{job}/mapping", json={"mode": "cast", "assignments": {"person-4": "identity"}})
    assert right.status_code == 200
    late = api.post(f"/api/v1/jobs/{job}/cast/merge", json={"into": "person-2", "others": ["person-1"]})
    assert (late.status_code, "decided" in late.json["detail"]) == (409, True)


def test_a_change_that_came_too_late_leaves_nothing_behind(
    api: FlaskClient, services: Services, ledger: FakeLedger, job: str
) -> None:
    before = {info.key for info in services.store.list(keys.job(job))}
    ledger.fail_with = RuntimeError()
    late = api.post(f"/api/v1/jobs/{job}/cast/merge", json={"into": "person-2", "others": ["person-3"]})
    assert late.status_code == 409
    assert {info.key for info in services.store.list(keys.job(job))} == before


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("merge", {"into": "person-1", "others": []}, 422),
        ("merge", {"into": "person-1"}, 422),
        ("merge", {"into": "person-1", "others": ["nobody"]}, 404),
        ("split", {"member": "person-1", "appearances": [1, 2]}, 422),
        ("split", {"member": "person-1", "appearances": [4]}, 404),
    ],
)
def test_wrong_changes_are_refused(api: FlaskClient, job: str, path: str, body: dict[str, Any], status: int) -> None:
    assert api.post(f"/api/v1/jobs/{job}/cast/{path}", json=body).status_code == status


def test_a_cast_that_is_not_known_yet_is_said(api: FlaskClient) -> None:
    job_id = upload(api).json["id"]
    assert api.get(f"/api/v1/jobs/{job_id}/cast").status_code == 409
    assert api.get(f"/api/v1/jobs/{job_id}/report").status_code == 404
    assert api.get("/api/v1/jobs/nothing/cast").status_code == 404


def test_the_account_names_everybody_with_times_and_pictures_left_out(
    api: FlaskClient, services: Services, ledger: FakeLedger, job: str
) -> None:
    renamed = [
        frame.model_copy(
            update={
                "faces": tuple(
                    face.model_copy(update={"person": {"a": "person-1", "b": "person-2"}.get(face.person or "")})
                    for face in frame.faces
                )
            }
        )
        for frame in FRAMES
    ]
    ledger.chunk_reports[job] = [summarise(renamed[:3]).model_dump(mode="json"), summarise(renamed[3:]).model_dump()]
    stranger = identity()
    object.__setattr__(stranger, "outliers", ("identity 1, picture 2",))
    services.store.put_bytes(keys.identity(job, 0), stranger.to_bytes())
    mapping = {"mode": "cast", "assignments": {"person-1": "identity"}}
    ledger.casts[job] = CastRecord(keys.cast(job), False, facts=facts().model_dump(mode="json"), mapping=mapping)
    found = api.get(f"/api/v1/jobs/{job}/report").json
    assert (found["frames"], found["without_face"], found["not_looked"]) == (8, 3, 1)
    assert found["empty"][0] == {"first": 0, "last": 1, "start": "00:00:00.000", "end": "00:00:00.042"}
    people = {person["person"]: person for person in found["people"]}
    assert list(people) == ["person-1", "person-2", "person-3", None]
    lead = people["person-1"]
    assert (lead["identity"], lead["found"], lead["changed"], lead["kept"]) == ("identity", 4, 3, 1)
    assert lead["spans"][0] == {
        "outcome": "swapped",
        "first": 2,
        "last": 4,
        "start": "00:00:00.083",
        "end": "00:00:00.167",
    }
    assert (people["person-3"]["found"], people[None]["outcomes"]) == (0, {"below threshold": 1})
    assert found["identities"] == [{"label": "identity", "used": ["picture 1"], "left_out": ["identity 1, picture 2"]}]


def test_a_plate_without_people_has_a_sheet_that_says_so(api: FlaskClient, services: Services, job: str) -> None:
    services.store.put_bytes(keys.cast(job), Cast((), 12).to_bytes())
    assert api.get(f"/api/v1/jobs/{job}/cast/sheet.png").status_code == 200
    assert members(api, job) == {}


def test_the_jobs_page_has_its_people_with_forms_that_need_no_script(api: FlaskClient, job: str) -> None:
    page = api.get(f"/jobs/{job}").text
    assert 'id="people-title"' in page
    assert f'src="/api/v1/jobs/{job}/cast/person-1.jpg' in page
    assert "6.0 s on screen" in page
    assert "<option>identity</option>" in page
    part = api.get(f"/jobs/{job}/people").text
    assert part.strip().startswith("<section")
    assert part.strip() in page

    merged = api.post(f"/jobs/{job}/people/merge", data={"into": "person-2", "other": "person-3"})
    assert (merged.status_code, merged.location) == (303, f"/jobs/{job}#people")
    split = api.post(f"/jobs/{job}/people/split", data={"member": "person-1", "appearance": ["2"]})
    assert split.status_code == 303
    assert members(api, job) == {"person-2": [3, 4], "person-1": [1], "person-4": [2]}


def test_who_becomes_whom_is_decided_on_the_page(api: FlaskClient, ledger: FakeLedger, job: str) -> None:
    nobody = api.post(f"/jobs/{job}/people/mapping", data={"becomes.person-1": "", "everyone": ""})
    assert (nobody.status_code, "Nobody was chosen." in nobody.text) == (422, True)
    assert f'<a href="/jobs/{job}">Back to the job</a>' in nobody.text
    told = api.post(f"/jobs/{job}/people/mapping", data={"becomes.person-1": "", "becomes.person-2": "identity"})
    assert told.status_code == 303
    assert "'assignments': {'person-2': 'identity'}" in ledger.log[job][-1].reason
    late = api.post(f"/jobs/{job}/people/split", data={"member": "person-1", "appearance": ["2"]})
    assert (late.status_code, "The mapping is decided" in late.text) == (409, True)


def test_everybody_may_become_one_identity(api: FlaskClient, ledger: FakeLedger, job: str) -> None:
    told = api.post(f"/jobs/{job}/people/mapping", data={"becomes.person-1": "", "everyone": "identity"})
    assert told.status_code == 303
    assert "'mode': 'all', 'identity': 'identity'" in ledger.log[job][-1].reason


def test_the_page_of_a_job_without_a_cast_shows_no_people(api: FlaskClient) -> None:
    job_id = upload(api).json["id"]
    assert "people-title" not in api.get(f"/jobs/{job_id}").text
    assert api.get(f"/jobs/{job_id}/people").text.strip() == ""
    assert api.get("/jobs/nothing/people").status_code == 404
