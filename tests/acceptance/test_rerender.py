"""Results that stand in for work, by real workers: the same frames, said in the record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from farm.api.schemas import JobIn, JobOut
from farm.sample import generate
from tests.acceptance.conftest import Farm, frame_hashes


def renders(farm: Farm, job: JobOut) -> list[dict[str, Any]]:
    """The last attempt at each chunk."""
    found = farm.client.operate("GET", f"/jobs/{job.id}/attempts")["items"]
    latest: dict[int, dict[str, Any]] = {}
    for attempt in found:  # newest first
        if attempt["kind"] == "render" and attempt["state"] == "done":
            latest.setdefault(attempt["position"], attempt)
    return [latest[position] for position in sorted(latest)]


def test_a_job_made_of_the_same_takes_its_chunks_over(farm: Farm, tmp_path: Path) -> None:
    plate = generate(tmp_path, seconds=2, size=(160, 90), people=1).plate
    options = JobIn(recipe="passthrough", deliverables=("ffv1",), chunk_seconds=1, project="again")
    first = farm.finished(farm.client.submit(options, plate=plate))
    assert ["reused" in attempt["environment"] for attempt in renders(farm, first)] == [False, False]

    second = farm.finished(farm.client.submit(options, plate=plate))
    assert [attempt["environment"]["reused"]["job"] for attempt in renders(farm, second)] == [first.id] * 2

    farm.client.operate("POST", f"/jobs/{second.id}/requeue", {"what": 1})
    second = farm.finished(second)
    assert ["reused" in attempt["environment"] for attempt in renders(farm, second)] == [True, False]

    farm.client.operate("POST", f"/jobs/{second.id}/requeue", {"recipe": "passthrough", "reason": "The same again."})
    second = farm.finished(second)
    assert ["reused" in attempt["environment"] for attempt in renders(farm, second)] == [True, True]

    files = [farm.download(job, "ffv1", tmp_path / f"{job.id}.mkv") for job in (first, second)]
    assert frame_hashes(files[0]) == frame_hashes(files[1])
    log = farm.client.operate("GET", f"/jobs/{second.id}/attempts/{renders(farm, second)[0]['id']}/log")["text"]
    assert "a result that is there is used again" in log
