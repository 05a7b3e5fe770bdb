"""The real `farm` command in a home of its own, and a farm that it has started."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from farm.local.home import Home
from tests.acceptance.conftest import Farm

COMMAND_SECONDS = 240


@dataclass(frozen=True)
class FarmCommand:
    """Runs `farm` with a home of its own, without the environment of whoever runs the tests."""

    home: Path

    def __call__(self, *arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.argv(*arguments),
            env=self.environment(environment),
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )

    def data(self, *arguments: str | Path) -> Any:
        """What a command that must succeed prints with --json."""
        done = self(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    @property
    def url(self) -> str:
        """Of the farm that is up."""
        state = Home(self.home).running()
        assert state is not None
        return state.url

    @staticmethod
    def argv(*arguments: str | Path) -> list[str]:
        return [sys.executable, "-c", "from farm.cli import main; raise SystemExit(main())", *map(str, arguments)]

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("FARM_")}
        return kept | {"FARM_HOME": str(self.home)} | dict(more or {})


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    """The last line on stderr, where the reason stands."""
    return done.stderr.rstrip("\n").rsplit("\n", 1)[-1]


@pytest.fixture(scope="session")
def running_farm(farm: Farm) -> FarmCommand:
    """The command in the home of the farm that all acceptance tests share."""
    return FarmCommand(farm.local.home.path)


@pytest.fixture
def no_farm(tmp_path: Path) -> FarmCommand:
    """A home in which no farm is up."""
    return FarmCommand(tmp_path / "home")
