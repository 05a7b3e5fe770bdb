"""The operators' commands ask the API for what their words say."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from click.testing import CliRunner

from farm.cli import connect, workers
from farm.cli.program import farm
from farm.errors import InputError

SECRET = "s" * 16
HOOK = {"url": "https://h/x", "project": "default", "kinds": ["job.state"], "secret": SECRET}


class FakeClient:
    def __init__(self) -> None:
        self.asked: list[tuple[str, str, Any]] = []

    def operate(self, method: str, path: str, body: Any = None) -> Any:
        self.asked.append((method, path, body))
        return {
            "secret": SECRET,
            "state": "running",
            "priority": 9,
            "why": "Because.",
            "count": 2,
            "id": "H1",
            "items": [],
        }


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> FakeClient:
    fake = FakeClient()

    @contextmanager
    def running() -> Iterator[FakeClient]:
        yield fake

    for module in (connect, workers):
        monkeypatch.setattr(module, "running_farm", running)
    return fake


@pytest.mark.parametrize(
    ("line", "asked", "said"),
    [
        ("pause J --reason lunch", ("POST", "/jobs/J/pause", {"reason": "lunch"}), "running"),
        ("resume J", ("POST", "/jobs/J/resume", {"reason": ""}), "running"),
        ("delete J --reason lunch", ("DELETE", "/jobs/J", {"reason": "lunch"}), "running, being deleted"),
        ("requeue J", ("POST", "/jobs/J/requeue", {"what": "failed", "reason": ""}), "running"),
        ("requeue J --all", ("POST", "/jobs/J/requeue", {"what": "job", "reason": ""}), "running"),
        ("requeue J --chunk 0", ("POST", "/jobs/J/requeue", {"what": 0, "reason": ""}), "running"),
        (
            "requeue J --recipe swap --set swap.boost=2",
            ("POST", "/jobs/J/requeue", {"reason": "", "recipe": "swap", "settings": {"swap": {"boost": 2}}}),
            "running",
        ),
        ("accept J 3 --reason black", ("POST", "/jobs/J/chunks/3/accept", {"reason": "black"}), "running"),
        ("priority J 9", ("POST", "/jobs/J/priority", {"priority": 9}), "9"),
        ("why J", ("GET", "/jobs/J/why", None), "Because."),
        ("why J --chunk 0", ("GET", "/jobs/J/chunks/0/why", None), "Because."),
        ("why --worker W", ("GET", "/workers/W/why", None), "Because."),
        (
            "worker restart W --now",
            ("POST", "/workers/W/state", {"state": "restart", "now": True, "reason": ""}),
            "asked: restart",
        ),
        ("worker forgive W", ("POST", "/workers/W/forgive", {"job_id": None}), "2 blocks lifted"),
        (
            "project P --budget -1 --max-running 0",
            ("POST", "/projects/P", {"max_running": 0, "budget_gpu_seconds": None}),
            None,
        ),
        (
            f"webhooks add https://h/x --secret {SECRET} --kind job.state",
            (
                "POST",
                "/webhooks",
                {"url": "https://h/x", "project": "default", "kinds": ["job.state"], "secret": SECRET},
            ),
            "H1",
        ),
        ("workers register K --worker W", ("POST", "/worker-keys", {"name": "K", "worker_id": "W"}), SECRET),
        ("workers revoke K", ("DELETE", "/worker-keys/K", None), "revoked; 2 workers used it"),
        ("webhooks remove H1", ("DELETE", "/webhooks/H1", None), "removed"),
        ("webhooks replay H1", ("POST", "/webhooks/H1/replay", {"after_event": 0}), "2 deliveries"),
    ],
)
def test_a_command_asks_for_one_thing(client: FakeClient, line: str, asked: tuple[Any, ...], said: str | None) -> None:
    done = CliRunner().invoke(farm, line.split(), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert client.asked == [asked]
    if said is not None:
        assert done.output.strip() == said


@pytest.mark.parametrize("line", ["why", "why J --worker W", "requeue J --all --chunk 1"])
def test_what_is_unclear_is_refused(client: FakeClient, line: str) -> None:
    with pytest.raises(InputError):
        CliRunner().invoke(farm, line.split(), catch_exceptions=False)
    assert client.asked == []
