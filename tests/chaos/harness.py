"""A farm under test: how jobs are given to it, how its parts are hurt, and what must be true afterwards."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote, urlsplit

import psutil
import psycopg
import redis
from pydantic import SecretStr
from sqlalchemy import select
from sqlalchemy.orm import Session

from farm.api.schemas import JobIn, JobOut
from farm.cli.reconciler import remove
from farm.client import Client
from farm.db.engine import Sessions, make_engine, make_sessions, transact
from farm.db.tables import Attempt, Chunk, Deliverable, Job
from farm.errors import InfrastructureError
from farm.jobs.policy import Policy
from farm.jobs.reconcile import StaleCleaner
from farm.jobs.states import FINAL_JOB_STATES
from farm.local.farm import LocalFarm
from farm.local.home import FarmState
from farm.settings import load_settings
from farm.store.base import Store
from farm.store.factory import open_store
from farm.store.s3 import connect
from tests.acceptance.conftest import frame_hashes
from tests.chaos.points import Points
from tests.chaos.services import BUCKET
from tests.integration.jobs.invariants import broken
from tests.media_factory import ffmpeg, picture, tone

T = TypeVar("T")
SECONDS = 2.5
LEASE = 3.0
PATIENCE = 60.0


class ChaosError(AssertionError):
    """Something that must never be was found."""


@dataclass
class ChaosFarm:
    """A running farm whose processes have points, and all that the harness needs to judge it."""

    local: LocalFarm
    client: Client
    sessions: Sessions
    points: Points
    store: Store
    plate: Path
    reference: list[tuple[Fraction, str]]
    folder: Path

    def submit(self, chunk_seconds: float = 0.5) -> str:
        """A job that changes nothing of the plate, in several chunks, as a lossless file; its id."""
        options = JobIn(recipe="passthrough", deliverables=("ffv1",), chunk_seconds=chunk_seconds)
        return self.client.submit(options, plate=self.plate).id

    def read(self, work: Callable[[Session], T]) -> T:
        """One look at the database, which may be away for a while."""
        until = time.monotonic() + PATIENCE
        while True:
            try:
                return transact(self.sessions, work)
            except InfrastructureError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.2)

    def wait(self, what: str, condition: Callable[[], T], seconds: float = PATIENCE) -> T:
        """The first true value of `condition`; ChaosError when it takes too long."""
        until = time.monotonic() + seconds
        while not (found := condition()):
            if time.monotonic() > until:
                raise ChaosError(f"waited {seconds:.0f} s in vain for: {what}")
            time.sleep(0.05)
        return found

    def state(self, job_id: str) -> str:
        return str(self.read(lambda s: s.scalar(select(Job.state).where(Job.id == job_id))))

    def running(self, job_id: str, kind: str = "render") -> bool:
        """Whether an attempt of that kind runs now."""
        wanted = select(Attempt.id).where(Attempt.job_id == job_id, Attempt.kind == kind, Attempt.state == "running")
        return self.read(lambda s: s.scalar(wanted.limit(1))) is not None

    def wait_running(self, job_id: str) -> None:
        self.wait("a running render", lambda: self.running(job_id) or self.is_final(job_id))

    def is_final(self, job_id: str) -> bool:
        return self.state(job_id) in FINAL_JOB_STATES

    def met(self, point: str) -> int:
        """Wait until a process has met its fault at the point; its id."""
        return self.wait(f"a process at {point}", lambda: self.points.met(point) or 0)

    def pids(self, service: str) -> list[int]:
        return self.wait(f"processes of {service}", lambda: self.local.processes().get(service, []))

    def slots(self) -> list[int]:
        """The Celery children."""
        found = []
        for pid in self.pids("worker"):
            with suppress(psutil.Error):
                process = psutil.Process(pid)
                if "celery" in process.cmdline():
                    found += [child.pid for child in process.children() if "celery" in child.cmdline()]
        return found

    def signal(self, pids: list[int], number: signal.Signals) -> None:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    @contextmanager
    def freezing(self, pids: list[int]) -> Iterator[None]:
        """The processes stand still inside the block."""
        self.signal(pids, signal.SIGSTOP)
        try:
            yield
        finally:
            self.signal(pids, signal.SIGCONT)

    @property
    def broker(self) -> redis.Redis:
        assert self.local.state is not None
        socket = unquote(urlsplit(self.local.state.broker_url).path)
        return redis.Redis(unix_socket_path=socket, socket_timeout=5)

    def superuser(self) -> psycopg.Connection:
        """A connection of its own, outside of any transaction."""
        assert self.local.state is not None
        url = self.local.state.database_url.replace("+psycopg", "")
        return psycopg.connect(url, connect_timeout=5, autocommit=True)

    def ended(self, job_id: str) -> str:
        """Wait for the job's end; its last state."""
        self.wait(f"the end of job {job_id}, which is {self.state(job_id)}", lambda: self.is_final(job_id))
        return self.state(job_id)

    def completed(self, job_id: str) -> None:
        """Wait for the job's end: it has to be completed, and its deliverable the plate, frame for frame."""
        state = self.ended(job_id)
        if state != "completed":
            raise ChaosError(f"the job is {state}: {self.client.job(job_id).reason}")
        self.check_film(self.client.job(job_id))

    def check_film(self, job: JobOut) -> None:
        out = self.folder / f"{job.id}.mkv"
        with out.open("wb") as file:
            self.client.download(job.id, "ffv1", file)
        found = frame_hashes(out)
        out.unlink()
        if found != self.reference:
            raise ChaosError(f"the film differs: {len(found)} frames of {len(self.reference)}")

    def check(self, jobs: list[str]) -> None:
        """What must hold when the jobs have ended and nothing is disturbed any more."""
        for job in jobs:
            self.ended(job)
        last: list[str] = []

        def nothing_broken() -> bool:
            last[:] = broken(self.sessions)
            return not last

        try:
            self.wait("the invariants", nothing_broken, 15)
        except ChaosError:
            raise ChaosError(f"broken: {'; '.join(last)}") from None
        self.wait("an end of all attempts", lambda: not any(self.running_any(job) for job in jobs), 15)
        for job in jobs:
            self.check_objects(job)

    def running_any(self, job_id: str) -> bool:
        wanted = select(Attempt.id).where(Attempt.job_id == job_id, Attempt.state == "running").limit(1)
        return self.read(lambda s: s.scalar(wanted)) is not None

    def check_objects(self, job_id: str) -> None:
        """In the store are the accepted results of the job and no others, once the cleaner has passed."""
        cleaner = StaleCleaner(
            self.sessions, lambda garbage: remove(self.store, garbage), Policy(garbage_seconds=0, lease_seconds=LEASE)
        )

        def superfluous() -> set[str]:
            while cleaner.run_once():
                pass
            stored = [info.key for info in self.store.list(f"jobs/{job_id}/")]
            attempts = {key.split("/")[4] for key in stored if "/chunks/" in key}
            attempts |= {key.split("/")[3] for key in stored if "/merges/" in key}
            return attempts - self.accepted(job_id)

        self.wait(f"no superfluous object of job {job_id}", lambda: not superfluous(), 20)

    def accepted(self, job_id: str) -> set[str]:
        def read(session: Session) -> set[str]:
            chunks = session.scalars(
                select(Chunk.attempt_id).where(Chunk.job_id == job_id, Chunk.attempt_id.is_not(None))
            )
            files = session.scalars(select(Deliverable.object_key).where(Deliverable.job_id == job_id))
            return {str(attempt) for attempt in chunks} | {key.split("/")[3] for key in files}

        return self.read(read)

    def calm(self) -> None:
        """Take all faults away again."""
        self.points.disarm()
        self.signal([pid for pids in self.local.processes().values() for pid in pids], signal.SIGCONT)


@contextmanager
def chaos_farm(folder: Path, *, s3: str = "") -> Iterator[ChaosFarm]:
    """A farm of two slots and two reconcilers in `folder`, on a folder store or on the S3 server at the URL `s3`."""
    plate = folder / "plate.mkv"
    ffmpeg(*picture(seconds=SECONDS), *tone(SECONDS), "-c:v", "libx264", "-g", "12", "-c:a", "pcm_s16le", str(plate))
    home = folder / "home"
    more: dict[str, object] = {}
    if s3:
        s3_client = connect(endpoint=s3, region="us-east-1", access_key="test", secret_key="test", path_style=True)
        s3_client.create_bucket(Bucket=BUCKET)
        more = {
            "s3_endpoint": s3, "s3_region": "us-east-1", "s3_access_key": "test", "s3_secret_key": "test",
            "s3_path_style": True,
        }  # fmt: skip
    settings = load_settings(
        home=home, url=None, slots=2, threads=1, lease_seconds=LEASE, heartbeat_seconds=0.5, reconcile_seconds=0.3,
        drain_seconds=1, log_format="json", **more,
    )  # fmt: skip
    with ExitStack() as stack:
        if s3:
            os.environ["FARM_CHAOS_STORE"] = f"s3://{BUCKET}/farm"
            stack.callback(os.environ.pop, "FARM_CHAOS_STORE")
        local = stack.enter_context(LocalFarm(home, settings, services="tests.chaos.services:chaos_services"))
        state = local.state
        assert state is not None
        client = Client(state.url)
        stack.callback(client.close)
        engine = make_engine(state.database_url, application="chaos", pool_size=2)
        stack.callback(engine.dispose)
        store = open_store(settings.model_copy(update=_store_settings(local, state, s3)))
        yield ChaosFarm(
            local, client, make_sessions(engine), Points(home / "chaos"), store, plate, frame_hashes(plate), folder
        )


def _store_settings(local: LocalFarm, state: FarmState, s3: str) -> dict[str, object]:
    secret = SecretStr(local.home.secret("url_secret").read_text().strip())
    return {"store": f"s3://{BUCKET}/farm" if s3 else state.store, "url_secret": secret}
