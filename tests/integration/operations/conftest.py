from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from werkzeug.test import TestResponse

from tests.integration.api.conftest import app, client, services, url

__all__ = ["app", "client", "services", "url"]

Ask = Callable[..., Any]


@pytest.fixture
def api(app: Flask) -> Ask:
    """Ask the API; what it answers with the status that was expected."""
    http = app.test_client()

    def ask(method: str, path: str, body: Any = None, *, status: int = 200) -> Any:
        answer: TestResponse = http.open(f"/api/v1{path}", method=method, json=body)
        assert answer.status_code == status, answer.get_data(as_text=True)
        return answer.get_json()

    return ask
