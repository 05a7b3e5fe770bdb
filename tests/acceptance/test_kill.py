"""`kill -9` of any part, in the middle of a render: the job completes by itself and the deliverable is the same."""

import os
import signal
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import psutil
import pytest

from farm.api.schemas import EventOut
from farm.sample import Sample
from tests.acceptance.conftest import Farm, frame_hashes, own_copy


def service(name: str) -> Callable[[Farm], list[int]]:
    return lambda farm: farm.local.processes()[name][:1]


def celery_child(farm: Farm) -> list[int]:
    """The process that renders: the child of the Celery worker, which is a child of the worker program."""
    found = []
    for pid in farm.local.processes()["worker"]:
        process = psutil.Process(pid)
        line = process.cmdline()
        if "celery" in line:
            found += [child.pid for child in process.children()]
    return found[:1]


def is_rendering(event: EventOut) -> bool:
    return event.kind == "attempt.state" and event.after == "running" and event.data.get("kind") == "render"


VICTIMS = {
    "worker child": celery_child,
    "worker": service("worker"),
    "api": service("api"),
    "valkey": service("valkey"),
    "postgres": service("postgres"),
    "reconciler": service("reconciler"),
}


@pytest.mark.parametrize("victim", VICTIMS)
def test_a_killed_part_loses_nothing(
    farm: Farm, sample: Sample, reference: list[tuple[Fraction, str]], tmp_path: Path, victim: str
) -> None:
    job = farm.submit(own_copy(sample.plate, tmp_path), chunk_seconds=1)
    rendering = 0
    for event in farm.client.events(job.id):
        rendering += is_rendering(event)
        if rendering == 2:
            break
    pids = VICTIMS[victim](farm)
    assert pids, f"no {victim} runs"
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    done = farm.finished(job)
    assert frame_hashes(farm.download(done, "ffv1", tmp_path / "out.mkv")) == reference
