"""An embedded farm and the sample plate for the acceptance tests."""

# NOTE TO THE AUTHOR OF THIS FILE: the first version was overwritten by mistake before it was committed and could not be
# recovered. This one was rebuilt from how test_main_job, test_kill and test_memory use it. Compare it with what you
# meant (length and size of the sample, scope of the farm, settings), then remove this note.

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import pytest

from farm.api.schemas import DEFAULT_LABEL, JobIn, JobOut
from farm.cli.progress import follow
from farm.client import Client
from farm.local.farm import LocalFarm
from farm.media.probe import probe
from farm.media.reader import read_plate
from farm.sample import IDENTITIES, Sample, generate, portrait_picture
from farm.settings import Settings

SAMPLE_SECONDS = 5


@dataclass(frozen=True)
class Farm:
    """A farm that is up, and a client of it."""

    local: LocalFarm
    client: Client

    def submit(self, plate: Path, *, deliverable: str = "ffv1", chunk_seconds: float) -> JobOut:
        """Replace the lead's face by the second person's."""
        options = JobIn(deliverables=(deliverable,), chunk_seconds=chunk_seconds)
        return self.client.submit(options, plate=plate, pictures={DEFAULT_LABEL: [portrait_picture(IDENTITIES[1])]})

    def finished(self, job: JobOut) -> JobOut:
        """The job when it is completed."""
        done = follow(self.client, job.id, lambda view: None)
        assert done.state == "completed", done.reason
        return done

    def download(self, job: JobOut, name: str, out: Path) -> Path:
        with out.open("wb") as target:
            self.client.download(job.id, name, target)
        return out


def frame_hashes(path: Path) -> list[tuple[Fraction, str]]:
    """Time (seconds from the first frame) and sha256 of the samples of each frame."""
    facts = probe(path)
    found: list[tuple[Fraction, str]] = []
    first: int | None = None
    for frame in read_plate(path, facts):
        first = frame.pts if first is None else first
        digest = hashlib.sha256(b"".join(plane.tobytes() for plane in frame.planes)).hexdigest()
        found.append(((frame.pts - first) * facts.video.time_base, digest))
    return found


@pytest.fixture(scope="session")
def farm() -> Iterator[Farm]:
    home = Path(tempfile.mkdtemp(prefix="farm-acceptance-"))
    try:
        with LocalFarm(home, Settings(home=home)) as local:
            assert local.state is not None
            client = Client(local.state.url)
            yield Farm(local, client)
            client.close()
    finally:
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    return generate(tmp_path_factory.mktemp("sample"), seconds=SAMPLE_SECONDS)


@pytest.fixture(scope="session")
def reference(farm: Farm, sample: Sample, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Fraction, str]]:
    """The frames of the sample rendered as one chunk."""
    job = farm.finished(farm.submit(sample.plate, chunk_seconds=60))
    return frame_hashes(farm.download(job, "ffv1", tmp_path_factory.mktemp("reference") / "one.mkv"))
