"""A person looks at the cast, corrects it, decides who becomes whom, and reads what came of it."""

from pathlib import Path

import cv2
from click.testing import CliRunner

from farm.api.schemas import EventOut, IdentityIn, JobIn, JobOut
from farm.cli.program import farm as command
from farm.sample import IDENTITIES, Sample, Truth, portrait_picture
from tests.acceptance.conftest import Farm


def waiting(farm: Farm, plate: Path) -> tuple[JobOut, list[EventOut]]:
    """A job that has found its cast, and its events; its third picture shows somebody else."""
    options = JobIn(
        identities=(IdentityIn(label="new"),), choose_mapping=True, deliverables=("h264",), chunk_seconds=2.5
    )
    pictures = [portrait_picture(IDENTITIES[number]) for number in (1, 1, 0)]
    job = farm.client.submit(options, plate=plate, pictures={"new": pictures})
    events = []
    for event in farm.client.events(job.id):
        events.append(event)
        if event.after == "awaiting_cast":
            break
    return farm.client.job(job.id), events


def test_a_cast_is_found_corrected_mapped_and_accounted_for(farm: Farm, sample: Sample, tmp_path: Path) -> None:
    client = farm.client
    job, events = waiting(farm, sample.plate)
    notes = [event.reason for event in events if event.kind == "job.cast"]
    assert notes == ["Identity 1, file 3 shows somebody else than the other pictures and was left out."]

    sheet = tmp_path / "sheet.png"
    told = CliRunner().invoke(command, ["cast", str(sample.plate), "-o", str(sheet), "--json"], catch_exceptions=False)
    assert told.exit_code == 0
    found = client.operate("GET", f"/jobs/{job.id}/cast")
    assert f'"sightings": {found["members"][0]["sightings"]}' in sheet.with_suffix(".json").read_text()
    assert client.picture(f"/jobs/{job.id}/cast/sheet.png") == sheet.read_bytes()
    assert cv2.imread(str(sheet)) is not None
    assert [member["id"] for member in found["members"]] == ["person-1", "person-2"]

    merged = client.operate("POST", f"/jobs/{job.id}/cast/merge", {"into": "person-2", "others": ["person-1"]})
    parts = {m["id"]: [part["number"] for part in m["appearances"]] for m in found["members"]}
    assert [member["id"] for member in merged["cast"]] == ["person-2"]
    split = client.operate(
        "POST", f"/jobs/{job.id}/cast/split", {"member": "person-2", "appearances": parts["person-1"]}
    )
    assert sorted(member["id"] for member in split["cast"]) == ["person-2", "person-3"]

    early = {"box": [0, 0, 480, 270], "end": 2.0}
    client.choose_mapping(job.id, {"mode": "cast", "assignments": {"person-3": "new"}, "exclude": [early]})
    farm.finished(job)

    report = client.operate("GET", f"/jobs/{job.id}/report")
    people = {person["person"]: person for person in report["people"]}
    assert report["frames"] == len(Truth.load(sample.truth))
    assert report["identities"][0]["left_out"] == ["identity 1, file 3"]
    assert people["person-2"]["changed"] == 0
    changed = people["person-3"]
    assert changed["identity"] == "new"
    assert changed["found"] == changed["changed"] + changed["kept"] == sum(changed["outcomes"].values())
    assert changed["changed"] > 48 >= changed["outcomes"]["out of the region"] > 24
    for span in changed["spans"]:
        assert (span["start"] < "00:00:02") == (span["outcome"] == "out of the region")
