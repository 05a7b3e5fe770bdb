"""Requests that tests send."""

from __future__ import annotations

import io
import json
from typing import Any

from flask.testing import FlaskClient
from werkzeug.test import TestResponse

PLATE = b"PLATE of ten seconds"
FACE = b"a face"
CLIP = b"\x1a\x45\xdf\xa3 a clip by its first bytes"


def upload(
    api: FlaskClient,
    *,
    plate: bytes | None = PLATE,
    identity: bytes | None = FACE,
    options: Any = None,
    key: str | None = None,
    more: dict[str, bytes] | None = None,
) -> TestResponse:
    parts: dict[str, Any] = {}
    if plate is not None:
        parts["plate"] = (io.BytesIO(plate), "../../etc/passwd")
    if identity is not None:
        parts["identity"] = (io.BytesIO(identity), "Jane Doe.jpg")
    for name, data in (more or {}).items():
        parts[name] = (io.BytesIO(data), "file")
    if options is not None:
        parts["options"] = options if isinstance(options, str) else json.dumps(options)
    headers = {"Idempotency-Key": key} if key else {}
    return api.post("/api/v1/jobs", data=parts, headers=headers)


def problem(answer: TestResponse, status: int) -> dict[str, Any]:
    """The problem document of an answer with this status."""
    assert answer.status_code == status, answer.get_data(as_text=True)
    assert answer.content_type == "application/problem+json"
    body: dict[str, Any] = json.loads(answer.get_data())
    assert body["status"] == status
    assert body["type"].startswith("urn:facefarm:problem:")
    assert body["detail"]
    assert body["request_id"] == answer.headers["X-Request-ID"]
    return body
