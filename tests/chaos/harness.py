"""A farm under test: how jobs are given to it, how its parts are hurt, and what must be true afterwards."""

from __future__ import annotations

import os
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from fractions import Fraction
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote, urlsplit

import psutil
import psycopg
import redis
from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from farm.api.schemas import IdentityIn, JobIn
from farm.cli.reconciler import remove
from farm.client import Client
from farm.db.engine import Sessions, transact
from farm.db.tables import Attempt, Chunk, Deliverable, Job
from farm.errors import FarmError, InfrastructureError
from farm.jobs.policy import Policy
from farm.jobs.reconcile import StaleCleaner
from farm.jobs.states import FINAL_JOB_STATES
from farm.local.farm import LocalFarm
from farm.orphans import OrphanSweeper
from farm.sample import IDENTITIES, portrait_picture
from farm.store.base import Store
from tests.acceptance.conftest import frame_hashes
from tests.chaos.bad_line import BadLine
from tests.chaos.partition import Relay
from tests.chaos.points import Points
from tests.integration.jobs.invariants import broken, broken_at_rest
from tests.rabbitmq import RabbitMQ

T = TypeVar("T")
LEASE = 3.0
PATIENCE = 60.0
WATCH_SECONDS = 0.5
FILLER = "filler"
MARK = "a-title-that-is-as-long-as-an-id"
"""In the plate; each job gets one with another title, so that no job takes over what an earlier one rendered."""
SWAP, UPSCALE = "swap", "upscale-real-esrgan"
"""Recipes that need models; the first needs a permit too."""


class ChaosError(AssertionError):
    """Something that must never be was found."""


class Watcher:
    """Looks at the invariants all the time, while the database can be asked."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watcher")
        self.found: set[str] = set()
        self.looks = 0

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(WATCH_SECONDS):
            with suppress(SQLAlchemyError):
                self.found |= set(broken(self._sessions))
                self.looks += 1


@dataclass
class Materials:
    """Plates of jobs that need models, and their frames as they are rendered undisturbed, by recipe."""

    plates: dict[str, Path]
    references: dict[str, list[tuple[Fraction, str]]] = field(default_factory=dict)


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
    has: frozenset[str]
    line: BadLine | None = None
    disks: dict[str, Path] = field(default_factory=dict)
    watcher: Watcher | None = None
    rabbitmq: RabbitMQ | None = None
    materials: Materials | None = None
    relays: dict[str, Relay] = field(default_factory=dict)

    def submit(self, chunk_seconds: float = 0.5, *, key: str | None = None, title: str | None = None) -> str:
        """A job that changes nothing of the plate, in several chunks, as a lossless file; its id.

        `title`: of the plate, 32 characters; a job with the title, and so the bytes, of another may take its results.
        """
        options = JobIn(recipe="passthrough", deliverables=("ffv1",), chunk_seconds=chunk_seconds)
        title = title or (uuid.UUID(key).hex if key else uuid.uuid4().hex)
        plate = self.folder / f"{uuid.uuid4().hex}.mkv"
        plate.write_bytes(self.plate.read_bytes().replace(MARK.encode(), title.encode()))
        try:
            with self.other_client() as client:
                return client.submit(options, plate=plate, idempotency_key=key).id
        finally:
            plate.unlink()

    @contextmanager
    def other_client(self) -> Iterator[Client]:
        """A client for another thread."""
        client = Client(self.client.url)
        try:
            yield client
        finally:
            client.close()

    def submit_with_models(self, recipe: str) -> str:
        """A job whose chunks need models and, for a swap, a permit; its id."""
        assert self.materials is not None
        swap = recipe == SWAP
        identities = (IdentityIn(label="in"),) if swap else ()
        options = JobIn(recipe=recipe, deliverables=("ffv1",), chunk_seconds=0.5, identities=identities)
        pictures = {"in": [portrait_picture(IDENTITIES[1])]} if swap else {}
        return self.client.submit(options, plate=self.materials.plates[recipe], pictures=pictures).id

    def undisturbed(self, recipe: str) -> list[tuple[Fraction, str]]:
        """The frames of such a job, rendered when they are first wanted."""
        assert self.materials is not None
        if recipe not in self.materials.references:
            job = self.submit_with_models(recipe)
            self.materials.references[recipe] = self.film(job)
            self.store.delete_prefix(f"jobs/{job}/")
        return self.materials.references[recipe]

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
            time.sleep(0.1)
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
                if _is_celery(pid):
                    found += [child.pid for child in psutil.Process(pid).children() if _is_celery(child.pid)]
        return found

    def celery_parents(self) -> list[int]:
        slots = set(self.slots())
        return [pid for pid in self.pids("worker") if pid not in slots and _is_celery(pid)]

    def begin_again(self, *services: str) -> None:
        """Kill all processes of the services and wait until others stand in their place."""
        before = {service: set(self.pids(service)) for service in services}
        for service in services:
            self.signal(sorted(before[service]), signal.SIGKILL)
        for service in services:
            self.wait(
                f"a new {service}",
                lambda service=service: set(self.local.processes().get(service, [])) - before[service],  # type: ignore[misc]
            )
        if "worker" in services:
            self.wait("new slots", self.slots)
        if any(service.startswith("api") for service in services):
            self.wait("the API", self._answers)

    def _answers(self) -> bool:
        with suppress(FarmError):
            return bool(self.client.health().get("ok", True))
        return False

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
    def broker_url(self) -> str:
        """Where the farm's wake-ups go."""
        return psutil.Process(self.pids("reconciler")[0]).environ()["FARM_BROKER_URL"]

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

    def completed(self, job_id: str, reference: list[tuple[Fraction, str]] | None = None) -> None:
        """Wait for the job's end: it has to be completed, and its deliverable the plate, frame for frame."""
        wanted, found = reference or self.reference, self.film(job_id)
        if found != wanted:
            raise ChaosError(f"the film differs: {len(found)} frames of {len(wanted)}")

    def film(self, job_id: str) -> list[tuple[Fraction, str]]:
        """The frames of the deliverable of a job that has to come to its good end."""
        state = self.ended(job_id)
        if state != "completed":
            raise ChaosError(f"the job is {state}: {self.client.job(job_id).reason}")
        out = self.folder / f"{job_id}.mkv"
        with out.open("wb") as file:
            self.client.download(job_id, "ffv1", file)
        found = frame_hashes(out)
        out.unlink()
        return found

    def check(self, jobs: list[str]) -> None:
        """What must hold when the jobs have ended and nothing is disturbed any more."""
        for job in jobs:
            self.ended(job)
        self.wait("an end of all attempts", lambda: not any(self.running_any(job) for job in jobs), 15)
        last: list[str] = []

        def nothing_broken() -> bool:
            last[:] = broken(self.sessions) + broken_at_rest(self.sessions)
            return not last

        try:
            self.wait("the invariants", nothing_broken, 15)
        except ChaosError:
            raise ChaosError(f"broken: {'; '.join(last)}") from None
        for job in jobs:
            self.check_objects(job)
        self.check_orphans()
        for job in jobs:
            self.store.delete_prefix(f"jobs/{job}/")

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
            return self.stored(job_id) - self.accepted(job_id)

        self.wait(f"no superfluous object of job {job_id}", lambda: not superfluous(), 20)
        if missing := self.accepted(job_id) - self.stored(job_id):
            raise ChaosError(f"of {len(missing)} accepted attempts there is no object")

    def stored(self, job_id: str) -> set[str]:
        """The attempts whose results are in the store."""
        keys = [info.key for info in self.store.list(f"jobs/{job_id}/")]
        attempts = {key.split("/")[4] for key in keys if "/chunks/" in key}
        return attempts | {key.split("/")[3] for key in keys if "/merges/" in key}

    def check_orphans(self) -> None:
        """In the store is nothing of a job that is not in the database, once the sweeper has passed."""
        OrphanSweeper(self.sessions, self.store, age=timedelta(0), every=0).run_once()
        stored = {info.key.split("/")[1] for info in self.store.list("jobs/")}
        known = self.read(lambda s: set(s.scalars(select(Job.id).where(Job.id.in_(stored)))))
        if stored - known:
            raise ChaosError(f"{len(stored - known)} jobs are in the store and not in the database")

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
        if self.line is not None:
            self.line.trouble = None
        for relay in self.relays.values():
            relay.heal(cut=False)
        for disk in self.disks.values():
            (disk / FILLER).unlink(missing_ok=True)
        self.signal([pid for pids in self.local.processes().values() for pid in pids], signal.SIGCONT)

    @contextmanager
    def full(self, disk: str) -> Iterator[None]:
        """No byte more can be written to the disk inside the block."""
        filler = self.disks[disk] / FILLER
        with filler.open("wb", buffering=0) as out, suppress(OSError):
            while True:
                out.write(bytes(1 << 16))
        try:
            yield
        finally:
            filler.unlink(missing_ok=True)


def _is_celery(pid: int) -> bool:
    try:
        return "celery" in psutil.Process(pid).cmdline()
    except psutil.Error:
        return False
