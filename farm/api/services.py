"""What the views work with, as Protocols: the ledger of jobs, the plate's probe, the check of a face."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast

from flask import current_app

from farm.api.intake import Received
from farm.api.live import Gate
from farm.api.operations import Operations
from farm.api.schemas import AttemptOut, BatchOut, ChunkOut, EventOut, FarmOut, JobOut, JobPage, JobQuery, WorkerOut
from farm.jobs.request import JobRequest
from farm.media.facts import PlateFacts
from farm.permits import Permits
from farm.recipe import Recipe
from farm.settings import Settings
from farm.store.base import Store
from farm.store.signing import UrlSigner
from farm.worker.scratch import Scratch


@dataclass(frozen=True, slots=True)
class Placed:
    """A submission's answer: `created` is False where the idempotency key had been used for the same request."""

    job_id: str
    created: bool


@dataclass(frozen=True, slots=True)
class StoredFile:
    """Where a deliverable lies, and under which name it is offered."""

    key: str
    size: int
    sha256: str
    filename: str


@dataclass(frozen=True, slots=True)
class CastRecord:
    """What the ledger says of a job's cast: where it lies, and whether the job `waits` for its mapping.

    labels: of the job's identities, in order. facts: PlateFacts as JSON, once probed. mapping: once decided.
    """

    cast_key: str | None
    waits: bool
    labels: tuple[str, ...] = ()
    facts: dict[str, Any] | None = None
    mapping: dict[str, Any] | None = None
    members: tuple[str, ...] = ()


class Ledger(Protocol):
    """The jobs as the API needs them. Unknown ids raise NotFoundError, impossible commands ConflictError."""

    def submit(self, request: JobRequest, job_id: str, idempotency_key: str, facts: PlateFacts) -> Placed: ...

    def exists(self, job_id: str) -> bool:
        """Whether there is such a job; True where the database does not say."""
        ...

    def job(self, job_id: str) -> JobOut: ...

    def is_final(self, job_id: str) -> bool: ...

    def jobs(self, query: JobQuery) -> JobPage: ...

    def batch(self, name: str) -> BatchOut: ...

    def chunks(self, job_id: str) -> list[ChunkOut]: ...

    def attempts(self, job_id: str, *, limit: int, attempt_id: str | None = None) -> list[AttemptOut]: ...

    def workers(self) -> list[WorkerOut]: ...

    def events(self, job_id: str, after: int, limit: int) -> list[EventOut]: ...

    def command(self, job_id: str, command: str, reason: str) -> None: ...

    def choose_mapping(self, job_id: str, mapping: dict[str, Any]) -> None: ...

    def cast(self, job_id: str) -> CastRecord: ...

    def replace_cast(
        self, job_id: str, before: str, after: str, members: list[dict[str, Any]], reason: str
    ) -> None: ...

    def reports(self, job_id: str) -> list[dict[str, Any]]:
        """RenderReport as JSON of each chunk that is done, in order."""
        ...

    def deliverable(self, job_id: str, name: str) -> StoredFile: ...

    def open_counts(self) -> dict[str, int]:
        """How many jobs that are not final are in each state."""
        ...

    def farm(self) -> FarmOut: ...

    def check(self) -> None:
        """InfrastructureError unless the database answers and has the right schema."""
        ...


class FaceCheck(Protocol):
    """Says whether pictures can serve as an identity."""

    def __call__(self, pictures: Sequence[bytes], face: int | None, label: str) -> None:
        """InputError unless each picture shows exactly one face, or the chosen one; it names `label` or `label[n]`."""
        ...


@dataclass(frozen=True)
class Services:
    """All that the views need, made once per application."""

    settings: Settings
    ledger: Ledger
    store: Store
    signer: UrlSigner | None
    scratch: Scratch
    probe: Callable[[Received], PlateFacts]
    stills: Callable[[Path], list[bytes]]
    check_faces: FaceCheck
    check_stills: Callable[[Sequence[bytes], str], None]
    check_recipe: Callable[[Recipe], None]
    permits: Permits
    wake: Callable[[], object]
    new_id: Callable[[], str]
    operations: Operations | None = None
    live: Gate = field(default_factory=lambda: Gate(8))


def services() -> Services:
    """The services of the application that handles this request."""
    return cast(Services, current_app.extensions["farm"])
