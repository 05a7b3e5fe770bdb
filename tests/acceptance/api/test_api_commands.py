"""The command from the first start to the finished file."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from farm.media.probe import probe
from farm.media.reader import read_plate
from farm.sample import IDENTITIES, generate, portrait_picture
from tests.acceptance.api.conftest import FarmCommand, last_line

FRAMES = 48


@pytest.fixture(scope="module")
def plate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generate(tmp_path_factory.mktemp("plate"), seconds=2, size=(320, 180), people=1).plate


def frames_of(path: Path) -> int:
    return sum(1 for _ in read_plate(path, probe(path)))


def test_render_starts_a_farm_of_its_own_and_leaves_the_file_alone(
    no_farm: FarmCommand, plate: Path, tmp_path: Path
) -> None:
    out = tmp_path / "it's %d [out] -.mkv"
    done = no_farm("render", plate, "--recipe", "passthrough", "--chunk-seconds", "1", "-o", out)
    assert done.returncode == 0, done.stderr
    assert f"{FRAMES} of {FRAMES} decoded" in done.stdout
    assert "completed: 48 of 48 frames, 2 of 2 chunks" in done.stderr
    assert frames_of(out) == FRAMES
    assert not no_farm.home.exists(), "the farm that was started is gone with all it held"
    assert sorted(path.name for path in tmp_path.iterdir()) == [out.name]


@pytest.fixture
def strict_farm(no_farm: FarmCommand) -> Iterator[FarmCommand]:
    """A farm of its own that renders under a recorded grant only, started by `farm up`."""
    assert no_farm("up", "--detach", FARM_CONSENT_POLICY="grant").returncode == 0
    yield no_farm
    no_farm("down")


def test_up_keeps_jobs_over_a_restart_and_asks_for_a_grant(
    strict_farm: FarmCommand, plate: Path, tmp_path: Path
) -> None:
    face = portrait_picture(IDENTITIES[0])
    refused = strict_farm("render", plate, "--identity", face, "-o", tmp_path / "out.mp4")
    assert refused.returncode == 3, refused.stderr
    assert "recorded grant" in last_line(refused)
    assert strict_farm.data("jobs")["items"] == []

    grant = tmp_path / "grant.pdf"
    grant.write_text("signed")
    submitted = strict_farm("submit", plate, "--identity", face, "--grant", grant, "--title", "Kept")
    assert submitted.returncode == 0, submitted.stderr
    job_id = submitted.stdout.strip()
    second = strict_farm("up", "--detach")
    assert second.returncode == 2
    assert "already up" in last_line(second)

    assert strict_farm("down").stdout == "stopped\n"
    assert strict_farm("up", "--detach").returncode == 0
    assert strict_farm("watch", job_id).returncode == 0
    (job,) = strict_farm.data("jobs")["items"]
    assert (job["id"], job["title"], job["state"]) == (job_id, "Kept", "completed")


def test_what_a_person_asks_of_a_farm(running_farm: FarmCommand, plate: Path, tmp_path: Path) -> None:
    job = running_farm.data("submit", plate, "--recipe", "passthrough", "--deliverable", "h264", "--title", "Asked")
    lines = running_farm("watch", job["id"], "--json").stdout.splitlines()
    changes = [event["after"] for event in map(json.loads, lines) if event["kind"] == "job.state"]
    assert changes[-1] == "completed"
    told = running_farm.data("job", job["id"])
    assert told["state"] == "completed"
    assert [chunk["state"] for chunk in told["chunks"]] == ["done"]
    assert job["id"] in running_farm("jobs", "--state", "final").stdout
    out = tmp_path / "down.mp4"
    assert running_farm("download", job["id"], "-o", out).stdout == f"{out}\n"
    assert frames_of(out) == FRAMES
    assert running_farm("cancel", job["id"]).returncode == 2
    (worker,) = [w for w in running_farm.data("workers")["items"] if w["state"] == "awake"]
    assert worker["slots"] >= 1
    facts = running_farm.data("probe", plate)
    assert (facts["video"]["width"], facts["video"]["codec"]) == (320, "h264")
    assert running_farm.data("delete", job["id"])["deleting"]


def test_a_command_that_is_interrupted_cancels_its_job(running_farm: FarmCommand, plate: Path, tmp_path: Path) -> None:
    face = portrait_picture(IDENTITIES[1])
    argv = running_farm.argv("render", plate, "--identity", face, "--title", "Interrupted", "-o", tmp_path / "out.mp4")
    process = subprocess.Popen(
        argv, env=running_farm.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith(("queued", "running")):
            break
    process.send_signal(signal.SIGTERM)
    _, rest = process.communicate(timeout=60)
    assert process.returncode == 1, rest
    assert "Interrupted" in rest.rstrip().rsplit("\n", 1)[-1]
    (job,) = [job for job in running_farm.data("jobs")["items"] if job["title"] == "Interrupted"]
    assert job["state"] in ("cancelling", "cancelled")
    assert list(tmp_path.iterdir()) == []


def test_the_doctor_tries_everything_and_finds_this_machine_fit(running_farm: FarmCommand) -> None:
    findings = running_farm.data("doctor")
    needed = {finding["name"]: finding["ok"] for finding in findings if finding["needed"]}
    assert all(needed.values()), needed
    assert {"libx264", "ffv1", "CPUExecutionProvider", "PostgreSQL", "Valkey", "ffmpeg"} <= set(needed)
    assert all(finding["get"] for finding in findings if not finding["ok"])
