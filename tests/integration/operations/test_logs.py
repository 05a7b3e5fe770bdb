"""Logs of attempts: through the API and the command, and of processes that died."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from farm.api.services import Services
from farm.cli import logs as logs_module
from farm.cli.program import farm
from farm.client import Client
from farm.db.engine import Sessions, transact
from farm.db.tables import Attempt
from farm.errors import ErrorClass
from farm.jobs import TaskKind, fail
from farm.store import keys
from farm.store.memory import MemoryStore
from farm.worker.attempt_log import AttemptLogs
from farm.worker.leftovers import Leftovers
from tests.integration.jobs.hands import Hands
from tests.integration.operations.conftest import Ask

DIES = """
import faulthandler, os, signal, sys
from pathlib import Path
import structlog
import farm.log
from farm.store.memory import MemoryStore
from farm.worker.attempt_log import AttemptLogs, LogKey
farm.log.configure("info", "json")
folder, job, task, attempt, how = sys.argv[1:]
with AttemptLogs(Path(folder), MemoryStore()).keeping(LogKey(job, task, attempt)):
    structlog.get_logger("t").info("frame rendered", number=7)
    os.kill(os.getpid(), int(how))
"""


def failed_chunk(hands: Hands) -> tuple[str, str, str]:
    """A job whose only chunk failed: its id, its task's and its attempt's."""
    job = hands.submit()
    hands.plan(1)
    claim = hands.must_claim(TaskKind.RENDER)
    cause = "ValueError in farm/faces/track.py:88 (match)"
    transact(hands.sessions, lambda s: fail(s, claim.lease, ErrorClass.RECIPE, "It broke.", cause=cause))
    return job, claim.lease.task_id, claim.lease.attempt_id


def test_a_log_is_read_in_parts_and_its_cause_stands_in_the_record(
    sessions: Sessions, services: Services, api: Ask
) -> None:
    job, task, attempt = failed_chunk(Hands(sessions))
    services.store.put_bytes(keys.attempt_log(job, task, attempt), "erste Zeile: größer\nzweite\n".encode())
    latest, _ = api("GET", f"/jobs/{job}/attempts")["items"]
    assert (latest["id"], latest["kind"], latest["state"], latest["error"]) == (
        attempt,
        "render",
        "failed",
        "It broke.",
    )
    assert latest["cause"] == "ValueError in farm/faces/track.py:88 (match)"
    first = api("GET", f"/jobs/{job}/attempts/{attempt}/log")
    assert (first["text"], first["ended"]) == ("erste Zeile: größer\nzweite\n", True)
    assert api("GET", f"/jobs/{job}/attempts/{attempt}/log?offset={first['next']}") == {
        "text": "", "next": first["next"], "ended": True,
    }  # fmt: skip
    api("GET", f"/jobs/{job}/attempts/nothing/log", status=404)
    api("GET", f"/jobs/{job}/attempts/{attempt}/log?offset=-1", status=422)
    api("GET", "/jobs/nothing/attempts", status=404)


def test_the_command_follows_a_log_until_the_attempt_has_ended(
    sessions: Sessions, services: Services, client: Client
) -> None:
    hands = Hands(sessions)
    job = hands.submit()
    claim = hands.must_claim(TaskKind.PLAN)
    key = keys.attempt_log(job, claim.lease.task_id, claim.lease.attempt_id)
    steps = iter(
        (
            lambda: services.store.put_bytes(key, b"one\n"),
            lambda: services.store.put_bytes(key, b"one\ntwo\n"),
            lambda: hands.fail(claim, ErrorClass.INPUT),
            lambda: services.store.put_bytes(key, b"one\ntwo\nlast\n"),
        )
    )

    def go_on(_: float) -> None:
        step = next(steps, None)
        if step is not None:
            step()

    parts = logs_module.read_parts(client, job, claim.lease.attempt_id, follow=True, sleep=go_on)
    assert "".join(parts) == "one\ntwo\nlast\n"


def test_the_command_chooses_the_attempt_that_tells_most(sessions: Sessions, services: Services, url: str) -> None:
    job, task, attempt = failed_chunk(Hands(sessions))
    services.store.put_bytes(keys.attempt_log(job, task, attempt), b"it broke here\n")
    environment = {"FARM_URL": url}
    assert CliRunner().invoke(farm, ["logs", job], env=environment).stdout == "it broke here\n"
    assert CliRunner().invoke(farm, ["logs", job, "--chunk", "0"], env=environment).stdout == "it broke here\n"
    listed = CliRunner().invoke(farm, ["logs", job, "--list"], env=environment).stdout
    assert "ValueError in farm/faces/track.py:88 (match)" in listed


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (signal.SIGKILL, "Its last words: "),
        (signal.SIGSEGV, "Fatal Python error: Segmentation fault"),
    ],
)
def test_a_process_that_dies_leaves_its_log_and_its_cause(
    sessions: Sessions, tmp_path: Path, how: signal.Signals, words: str
) -> None:
    hands = Hands(sessions)
    job = hands.submit()
    lease = hands.must_claim(TaskKind.PLAN).lease
    died = subprocess.run(
        [sys.executable, "-c", DIES, tmp_path, job, lease.task_id, lease.attempt_id, str(int(how))], check=False
    )
    assert died.returncode == -how
    store = MemoryStore()
    Leftovers(sessions, AttemptLogs(tmp_path, store)).send()
    assert b"frame rendered" in store.get_bytes(keys.attempt_log(job, lease.task_id, lease.attempt_id))
    with sessions() as session:
        cause = session.get_one(Attempt, lease.attempt_id).cause
    assert cause is not None
    assert cause.startswith(words)
    assert list(tmp_path.iterdir()) == []
