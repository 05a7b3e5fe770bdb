"""The OpenAPI document says what the application does."""

from __future__ import annotations

import re
from typing import Any

import pytest
from flask.testing import FlaskClient

from farm.api.schemas import JobOut
from tests.unit.api.helpers import upload

OUTSIDE = {"openapi.spec", "static"}


@pytest.fixture
def spec(api: FlaskClient) -> dict[str, Any]:
    answer = api.get("/api/v1/openapi.json")
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json
    return found


def test_it_is_openapi_3_1_with_every_route_of_the_api(api: FlaskClient, spec: dict[str, Any]) -> None:
    assert spec["openapi"].startswith("3.1")
    routed = {
        (re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", rule.rule), method.lower())
        for rule in api.application.url_map.iter_rules()
        if rule.rule.startswith("/api/v1") and rule.endpoint not in OUTSIDE
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
    }
    described = {(path, method) for path, operations in spec["paths"].items() for method in operations}
    assert described == routed


def test_every_reference_is_resolved(spec: dict[str, Any]) -> None:
    def check(node: Any) -> None:
        if isinstance(node, dict):
            if isinstance(node.get("$ref"), str):
                target: Any = spec
                for part in node["$ref"].removeprefix("#/").split("/"):
                    target = target[part]
            for child in node.values():
                check(child)
        elif isinstance(node, list):
            for child in node:
                check(child)

    check(spec)


def test_operation_ids_are_unique_and_failures_are_problems(spec: dict[str, Any]) -> None:
    operations = [operation for path in spec["paths"].values() for operation in path.values()]
    ids = [operation["operationId"] for operation in operations]
    assert len(set(ids)) == len(ids)
    for operation in operations:
        for status, answer in operation["responses"].items():
            if status >= "400":
                assert list(answer["content"]) == ["application/problem+json"], (operation["operationId"], status)


def test_a_job_has_the_fields_that_are_described(api: FlaskClient, spec: dict[str, Any]) -> None:
    body = upload(api).json
    described = spec["components"]["schemas"]["JobOut"]["properties"]
    assert set(body) == set(described) == set(JobOut.model_fields)


def test_an_undescribed_status_is_never_answered(api: FlaskClient, spec: dict[str, Any]) -> None:
    probes = [
        ("get", "/api/v1/jobs", "/api/v1/jobs"),
        ("get", "/api/v1/jobs", "/api/v1/jobs?limit=x"),
        ("post", "/api/v1/jobs", "/api/v1/jobs"),
        ("get", "/api/v1/jobs/{job_id}", "/api/v1/jobs/none"),
        ("get", "/api/v1/jobs/{job_id}/chunks", "/api/v1/jobs/none/chunks"),
        ("get", "/api/v1/jobs/{job_id}/events", "/api/v1/jobs/none/events"),
        ("get", "/api/v1/jobs/{job_id}/deliverables/{name}", "/api/v1/jobs/none/deliverables/h264"),
        *(("post", f"/api/v1/jobs/{{job_id}}/{c}", f"/api/v1/jobs/none/{c}") for c in ("cancel", "pause", "resume")),
        *(("get", f"/api/v1/{name}", f"/api/v1/{name}") for name in ("workers", "recipes", "deliverables")),
    ]
    for method, path, url in probes:
        status = str(api.open(url, method=method.upper()).status_code)
        assert status in spec["paths"][path][method]["responses"], (method, url, status)
