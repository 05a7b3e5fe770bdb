"""One job through an embedded farm of its own, for the media benchmark: what a user of the program gets."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import requests

_FARM = Path(sys.executable).with_name("farm")


def render_by_farm(plate: Path, home: Path, out: Path) -> dict[str, Any]:
    """A plate to `h264` with nothing changed, by a farm that is started for it in the empty folder `home`.

    `seconds` from the job's making to its end; `render_seconds` from the first chunk's claim to the last one's end,
    with all that lies between chunks; `cpu_seconds` of the farm's programs from its start to its end.
    """
    before = _children_cpu()
    with _farm(home) as (url, environment):
        order = ["render", str(plate), "--recipe", "passthrough", "--deliverable", "h264", "-o", str(out), "--json"]
        done = subprocess.run([_FARM, *order], env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"farm render failed:\n{done.stderr[-2000:]}")
        job = json.loads(done.stdout)
        attempts = requests.get(f"{url}/api/v1/jobs/{job['id']}/attempts", timeout=30).json()["items"]
    renders = [attempt for attempt in attempts if attempt["kind"] == "render"]
    return {
        "seconds": _between([job], "created_at", "finished_at"),
        "render_seconds": _between(renders, "started_at", "ended_at"),
        "cpu_seconds": _children_cpu() - before,
        "chunks": len(renders),
    }


@contextmanager
def _farm(home: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """(URL, environment of its commands) of an embedded farm, which is ended afterwards."""
    environment = {**os.environ, "FARM_HOME": str(home)}
    process = subprocess.Popen([_FARM, "up"], env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        if not url:
            raise RuntimeError("farm up ended before it had started")
        yield url, environment
    finally:
        subprocess.run([_FARM, "down"], env=environment, capture_output=True, check=False)
        process.communicate()


def _between(items: list[dict[str, Any]], first: str, last: str) -> float:
    begun = min(datetime.fromisoformat(item[first]) for item in items)
    return (max(datetime.fromisoformat(item[last]) for item in items) - begun).total_seconds()


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
