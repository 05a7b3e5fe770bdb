"""Waiting for processes, and homes that leave nothing behind."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from farm.local.farm import LocalFarm
from farm.local.home import Home
from farm.local.process import end_instance, is_alive, marked
from farm.settings import Settings

ROOT = Path(__file__).resolve().parents[3]


def eventually(happened: Callable[[], object], seconds: float = 20) -> None:
    """Wait for something that gives no signal; fails after `seconds`."""
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def kill(pid: int) -> None:
    """SIGKILL, and wait until it executes no more."""
    process = psutil.Process(pid)
    process.kill()
    eventually(lambda: not is_alive(process))


def guard_of(instance: str) -> int:
    for process in psutil.process_iter(["cmdline"]):
        if "farm.local.guard" in (process.info["cmdline"] or []) and instance in process.info["cmdline"]:
            return process.pid
    raise AssertionError("no guard")


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(f"FARM_{name.upper()}", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A home that does not exist yet; a test must not leave a process of it."""
    path = tmp_path / "home"
    yield path
    left = Home(path).last_state() if path.exists() else None
    if left:
        count = len(marked(left.instance))
        LocalFarm(path).down()
        end_instance(left.instance)
        assert count == 0, "processes were left"


def farm(home: Path, services: str) -> LocalFarm:
    """A farm of fakes (a function of `fakes`) or of real servers ("backing_services")."""
    module = "farm.local.services" if services == "backing_services" else "tests.integration.local.fakes"
    return LocalFarm(home, services=f"{module}:{services}")
