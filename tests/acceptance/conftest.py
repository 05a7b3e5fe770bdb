"""One embedded farm for the acceptance tests of a session, and helpers to submit to it and to look at what came out."""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from farm.api.schemas import IdentityIn, JobIn, JobOut
from farm.client import Client
from farm.local.farm import SERVICES, LocalFarm
from farm.media.probe import probe
from farm.media.reader import read_plate
from farm.sample import IDENTITIES, Sample, generate, portrait_picture
from farm.settings import load_settings
from tests.rabbitmq import BROKER, rabbitmq

SAMPLE_SECONDS = 5


@dataclass(frozen=True)
class Farm:
    """A running farm and its client."""

    local: LocalFarm
    client: Client

    def submit(
        self,
        plate: Path,
        *,
        recipe: str = "swap",
        deliverable: str = "ffv1",
        chunk_seconds: float = 1.0,
        settings: dict[str, dict[str, Any]] | None = None,
    ) -> JobOut:
        """Ask for the first person of the sample to become the second one, wherever the first one is seen.

        Forms are not fitted unless the settings say so: it takes seconds, and few tests look at the likeness.
        """
        if settings is None and recipe == "swap":
            settings = {"swap": {"fitted": False}}
        pictures = {"in": [portrait_picture(IDENTITIES[1])], "out": [portrait_picture(IDENTITIES[0])]}
        options = JobIn(
            recipe=recipe,
            settings=settings or {},
            deliverables=(deliverable,),
            chunk_seconds=chunk_seconds,
            identities=tuple(IdentityIn(label=label) for label in pictures),
            mapping={"mode": "reference", "references": {"out": "in"}},
        )
        return self.client.submit(options, plate=plate, pictures=pictures)

    def finished(self, job: JobOut) -> JobOut:
        """Wait for the end of the job; it has to be completed."""
        for _ in self.client.events(job.id):
            pass
        done = self.client.job(job.id)
        assert done.state == "completed", done.reason
        return done

    def download(self, job: JobOut, name: str, out: Path) -> Path:
        with out.open("wb") as file:
            self.client.download(job.id, name, file)
        return out


def own_copy(plate: Path, folder: Path) -> Path:
    """A copy with the same streams and other bytes: results of one plate are taken over for another job of it."""
    copy = folder / f"own{plate.suffix}"
    name = uuid.uuid4().bytes
    copy.write_bytes(plate.read_bytes() + (8 + len(name)).to_bytes(4, "big") + b"free" + name)
    return copy


def frame_hashes(path: Path) -> list[tuple[Fraction, str]]:
    """Presentation time in seconds from the first frame, and sha256 of all samples, of each frame of a video."""
    facts = probe(path)
    found = []
    for frame in read_plate(path, facts):
        digest = hashlib.sha256()
        for plane in frame.planes:
            digest.update(plane.tobytes())
        found.append((frame.pts * facts.video.time_base, digest.hexdigest()))
    start = found[0][0]
    return [(time - start, digest) for time, digest in found]


@pytest.fixture(scope="session")
def farm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Farm]:
    home = tmp_path_factory.mktemp("farm")
    settings = load_settings(
        home=home, url=None, lease_seconds=8, heartbeat_seconds=1, reconcile_seconds=0.5, drain_seconds=1
    )
    with ExitStack() as stack:
        services = SERVICES
        if os.environ.get("FARM_TESTS_BROKER") == "rabbitmq":
            url = stack.enter_context(rabbitmq(tmp_path_factory.mktemp("broker") / "rabbitmq")).url
            stack.enter_context(pytest.MonkeyPatch.context()).setenv(BROKER, url)
            services = "tests.rabbitmq:services"
        local = stack.enter_context(LocalFarm(home, settings, services=services))
        assert local.state is not None
        client = Client(local.state.url)
        yield Farm(local, client)
        client.close()


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    """Two people, five seconds, small."""
    return generate(tmp_path_factory.mktemp("sample"), seconds=SAMPLE_SECONDS, size=(480, 270))


@pytest.fixture(scope="session")
def reference(farm: Farm, sample: Sample, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Fraction, str]]:
    """The frames of the sample as one undisturbed job with one chunk renders them."""
    job = farm.finished(farm.submit(sample.plate, chunk_seconds=60))
    out = farm.download(job, "ffv1", tmp_path_factory.mktemp("reference") / "one-chunk.mkv")
    return frame_hashes(out)
