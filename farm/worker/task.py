"""What a running task has at hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from farm.errors import InputError
from farm.jobs.request import PictureRef, PlateRef
from farm.jobs.wire import Claim, Lease, ObjectOut
from farm.media.facts import PlateFacts
from farm.media.timeline import Timeline
from farm.settings import Settings
from farm.store import keys
from farm.store.base import ObjectInfo, Store
from farm.store.factory import locate
from farm.worker.control import Control
from farm.worker.heartbeat import Heartbeat
from farm.worker.toolbox import Toolbox


@dataclass(frozen=True, slots=True)
class TaskContext:
    """A claimed task with its tools. `folder` is scratch space that goes when the task ends."""

    claim: Claim
    control: Control
    store: Store
    toolbox: Toolbox
    folder: Path
    heartbeat: Heartbeat
    settings: Settings

    @property
    def lease(self) -> Lease:
        return self.claim.lease

    @property
    def job_id(self) -> str:
        return self.claim.job.id

    @property
    def where(self) -> str:
        """How an error names this task."""
        chunk = f" chunk {self.claim.position}" if self.claim.chunk is not None else ""
        return f"job {self.job_id}{chunk}"

    def facts(self) -> PlateFacts:
        return PlateFacts.model_validate(self.claim.facts)

    def timeline(self) -> Timeline:
        if self.claim.timeline_key is None:
            raise InputError("The plate has not been planned.", where=self.where, do="Requeue the job.")
        return Timeline.from_bytes(self.store.get_bytes(self.claim.timeline_key))

    def fetch(self, ref: PlateRef | PictureRef, name: str) -> tuple[Path, ObjectInfo]:
        """The plate or a picture as a file in the scratch folder."""
        path = self.folder / name
        if ref.object_key is not None:
            return path, self.store.get_file(ref.object_key, path)
        store, key = locate(str(ref.uri), self.settings)
        return path, store.get_file(key, path)

    def output_prefix(self) -> str:
        """Where this attempt stores what it makes; nobody else writes there. "" for what is not kept by attempt."""
        if self.claim.chunk is not None:
            return keys.chunk_attempt(self.job_id, self.claim.position, self.lease.attempt_id)
        return keys.merge_attempt(self.job_id, self.lease.attempt_id) if self.claim.done else ""

    def stored(self, info: ObjectInfo, facts: Mapping[str, object]) -> ObjectOut:
        return ObjectOut(key=info.key, sha256=info.sha256, size=info.size, facts=dict(facts))
