"""The API's services without services: a ledger in memory, a probe and a face check that say what a test wants."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from farm.api.known import KnownPlates
from farm.api.live import Gate
from farm.api.schemas import AttemptOut, BatchOut, ChunkOut, EventOut, FarmOut, JobOut, JobPage, JobQuery, WorkerOut
from farm.api.services import CastRecord, Placed, Services, StoredFile
from farm.errors import ConflictError, InputError, NotFoundError
from farm.faces.readiness import check_recipe
from farm.inference.deployment import open_deployment
from farm.jobs.request import JobRequest
from farm.media.facts import PlateFacts, VideoFacts
from farm.permits import Permits
from farm.settings import Settings
from farm.store.memory import MemoryStore
from farm.worker.scratch import Scratch

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@dataclass
class FakeLedger:
    requests: dict[str, JobRequest] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)
    log: dict[str, list[EventOut]] = field(default_factory=dict)
    files: dict[tuple[str, str], StoredFile] = field(default_factory=dict)
    chunk_views: dict[str, list[ChunkOut]] = field(default_factory=dict)
    casts: dict[str, CastRecord] = field(default_factory=dict)
    chunk_reports: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    tries: dict[str, list[AttemptOut]] = field(default_factory=dict)
    fail_with: Exception | None = None
    commit_unheard: bool = False

    def submit(self, request: JobRequest, job_id: str, idempotency_key: str, facts: PlateFacts) -> Placed:
        if self.fail_with is not None:
            if self.commit_unheard:
                self._add(request, job_id)
            raise self.fail_with
        known = self.keys.get(idempotency_key)
        if known is not None:
            if self.requests[known].digest() != request.digest():
                raise ConflictError("The idempotency key was used for another request.", do="Use a new key.")
            return Placed(known, created=False)
        self.keys[idempotency_key] = job_id
        self._add(request, job_id)
        return Placed(job_id, created=True)

    def _add(self, request: JobRequest, job_id: str) -> None:
        self.requests[job_id] = request
        self.change(job_id, "queued", "Submitted.")

    def change(self, job_id: str, state: str, reason: str = "") -> None:
        before = self.states.get(job_id)
        self.states[job_id] = state
        events = self.log.setdefault(job_id, [])
        events.append(EventOut(id=len(events) + 1, at=NOW, kind="job.state", before=before, after=state, reason=reason))

    def exists(self, job_id: str) -> bool:
        return job_id in self.requests

    def job(self, job_id: str) -> JobOut:
        if job_id not in self.requests:
            raise NotFoundError("There is no such job.", where=f"job {job_id}", do="List them: farm jobs.")
        request = self.requests[job_id]
        return JobOut(
            id=job_id,
            state=self.states[job_id],
            final=self.is_final(job_id),
            title=request.title,
            recipe=request.recipe.name,
            deliverables_wanted=list(request.deliverables),
            priority=request.priority,
            created_at=NOW,
        )

    def is_final(self, job_id: str) -> bool:
        return self.states[job_id] in ("completed", "failed", "cancelled")

    def jobs(self, query: JobQuery) -> JobPage:
        found = [self.job(job_id) for job_id in reversed(self.requests)]
        return JobPage(items=[job for job in found if query.state in (None, job.state)][: query.limit])

    def batch(self, name: str) -> BatchOut:
        raise NotFoundError("There is no such batch.", where=f"batch {name}", do="List the jobs.")

    def chunks(self, job_id: str) -> list[ChunkOut]:
        self.job(job_id)
        return self.chunk_views.get(job_id, [])

    def attempts(self, job_id: str, *, limit: int, attempt_id: str | None = None) -> list[AttemptOut]:
        self.job(job_id)
        found = self.tries.get(job_id, [])
        return [attempt for attempt in found if attempt_id in (None, attempt.id)][:limit]

    def workers(self) -> list[WorkerOut]:
        return []

    def events(self, job_id: str, after: int, limit: int) -> list[EventOut]:
        return [event for event in self.log[job_id] if event.id > after][:limit]

    def command(self, job_id: str, command: str, reason: str) -> None:
        self.job(job_id)
        if self.is_final(job_id):
            raise ConflictError(f"A job that is {self.states[job_id]} cannot be stopped.", where="job")
        self.change(job_id, {"cancel": "cancelled", "pause": "paused"}.get(command, "queued"), reason)

    def choose_mapping(self, job_id: str, mapping: dict[str, Any]) -> None:
        self.job(job_id)
        if self.states[job_id] != "awaiting_cast":
            raise ConflictError("Only a job that waits for a mapping can be given one.", where="job")
        self.change(job_id, "running", str(mapping))

    def cast(self, job_id: str) -> CastRecord:
        self.job(job_id)
        waits = self.states[job_id] == "awaiting_cast"
        labels = tuple(identity.label for identity in self.requests[job_id].identities)
        return replace(self.casts.get(job_id, CastRecord(None, waits)), waits=waits, labels=labels)

    def replace_cast(self, job_id: str, before: str, after: str, members: list[dict[str, Any]], reason: str) -> None:
        if self.casts[job_id].cast_key != before or self.fail_with is not None:
            raise ConflictError("Somebody else has changed the cast meanwhile.", where="job")
        ids = tuple(member["id"] for member in members)
        self.casts[job_id] = replace(self.casts[job_id], cast_key=after, members=ids)
        self.change(job_id, self.states[job_id], reason)

    def reports(self, job_id: str) -> list[dict[str, Any]]:
        return self.chunk_reports.get(job_id, [])

    def deliverable(self, job_id: str, name: str) -> StoredFile:
        self.job(job_id)
        try:
            return self.files[job_id, name]
        except KeyError:
            raise NotFoundError("The job has no such deliverable.", where=name) from None

    def open_counts(self) -> dict[str, int]:
        return {"queued": sum(state == "queued" for state in self.states.values())}

    def farm(self) -> FarmOut:
        return FarmOut(word="idle", why="Nothing is to be done.", jobs={}, queue={}, tasks=[], failing=[], shares=[])

    def check(self) -> None:
        if self.fail_with is not None:
            raise self.fail_with


def plate_facts(path: Path) -> PlateFacts:
    data = path.read_bytes()
    if not data.startswith((b"PLATE", b"\x1a\x45\xdf\xa3")):
        raise InputError("It is not a video.", where="the plate", do="Give a video file.")
    video = VideoFacts(
        stream_index=0,
        codec="h264",
        width=64,
        height=64,
        sample_format="yuv420p",
        bit_depth=8,
        time_base=Fraction(1, 24),
    )
    return PlateFacts(container="mp4", size=len(data), duration=Fraction(len(data)), video=video)


def check_faces(pictures: Sequence[bytes], face: int | None, label: str) -> None:
    for picture in pictures:
        if b"nobody" in picture:
            raise InputError("The picture shows no face.", where=label, do="Give another one.")


def check_stills(stills: Sequence[bytes], label: str) -> None:
    if any(b"nobody" in still for still in stills):
        raise InputError("The clip shows no face.", where=label, do="Give another one.")


def make_services(tmp: Path, **settings: object) -> Services:
    store = MemoryStore()
    ids = itertools.count(1)
    return Services(
        settings=Settings(home=tmp / "home", **settings),  # type: ignore[arg-type]
        ledger=FakeLedger(),
        store=store,
        signer=store.signer,
        scratch=Scratch(tmp / "scratch"),
        probe=KnownPlates(plate_facts),
        stills=lambda path: [path.read_bytes()],
        check_faces=check_faces,
        check_stills=check_stills,
        check_recipe=partial(check_recipe, deployment=open_deployment(tmp / "home")),
        permits=Permits(Ed25519PrivateKey.generate(), lambda: NOW),
        wake=lambda: None,
        new_id=lambda: f"job{next(ids)}",
        live=Gate(2),
    )
