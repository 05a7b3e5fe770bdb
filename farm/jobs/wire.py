"""What goes between the control plane and a worker. `WIRE` counts up with every change an old worker could not bear."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from farm.db.enums import TaskKind
from farm.jobs.request import IdentityRef, Name, Plain, PlateRef, Sha256
from farm.recipe import Recipe

WIRE = 2
FACES_WIRE = 2
"""2: identities shown by clips, casts that were edited by hand, and mappings of these."""
MERGE_WIRE = 2
"""2: chunk files that are MP4. Tasks that are neither of these are as in 1."""


class Slot(Plain):
    """One place where a task can run, and what it can do.

    `models` and `codecs`: None means "any" (it can fetch models; it has every codec). `vram_mb` is what is free for
    this slot. `exclusive`: take only work that asks for one of this worker's tags. `wire`: newest claim that it
    understands.
    """

    worker_id: Annotated[str, Field(min_length=1, max_length=64)]
    number: int = 0
    kinds: tuple[TaskKind, ...] = tuple(TaskKind)
    tags: tuple[Name, ...] = ()
    exclusive: bool = False
    vram_mb: int = 0
    models: tuple[Name, ...] | None = None
    codecs: tuple[Name, ...] | None = None
    wire: int = WIRE


class Lease(Plain):
    """The right to work on a task. Every report carries it; `token` is what counts. `until` is database time."""

    token: str
    job_id: str
    task_id: str
    attempt_id: str
    until: datetime
    seconds: float
    heartbeat_seconds: float


class ChunkPlan(Plain):
    """Frames [first, last) of the plate and the segment they are decoded from.

    `plan` is for the renderer and opaque here: frames of context, the key of its part of the timeline, pts, ...
    """

    position: int = Field(ge=0)
    first: int = Field(ge=0)
    last: int
    seconds: float = Field(ge=0)
    segment_key: str
    segment_sha256: Sha256
    segment_size: int = Field(ge=0)
    plan: dict[str, Any] = Field(default_factory=dict)


class ChunkTask(ChunkPlan):
    """A chunk as a renderer gets it. `as_is`: a person accepted the plate's own frames; run no processor."""

    as_is: bool = False


class ObjectOut(Plain):
    """An object that an attempt made. `facts` is what its reader needs (ChunkFacts, MergeReport, ...), opaque here."""

    key: str
    sha256: Sha256
    size: int = Field(ge=0)
    facts: dict[str, Any] = Field(default_factory=dict)


class ChunkDone(ChunkTask):
    """A chunk with what was accepted for it, by deliverable."""

    attempt_id: str
    outputs: dict[str, ObjectOut]
    report: dict[str, Any] | None = None


class JobSpec(Plain):
    """What a worker needs to know of the job, the same for all of its tasks."""

    id: str
    project: str
    recipe: Recipe
    deliverables: tuple[str, ...]
    options: dict[str, Any]
    chunk_seconds: float
    plate: PlateRef
    identities: tuple[IdentityRef, ...]
    mapping_request: dict[str, Any] | None
    needs_cast: bool
    consent: dict[str, Any] | None
    permit: dict[str, Any] | None


class Claim(Plain):
    """A task and all that is needed to do it.

    `facts`: PlateFacts as JSON, once planned. `frames`, `timeline_key`: once the scan has ended. `mapping`: the decided
    mapping. `chunk`: a render task's. `chunks`: a cast task's (those planned so far) and a merge task's (`done`).
    `shrunk`: how often this task ran out of memory; halve the batch as many times. `plan_by_decode`: a plan by packets
    was wrong (see `replan`); a plan task must decode the whole plate.
    """

    wire: int = WIRE
    lease: Lease
    kind: TaskKind
    position: int
    number: int
    shrunk: int
    job: JobSpec
    facts: dict[str, Any] | None = None
    frames: int | None = None
    timeline_key: str | None = None
    cast_key: str | None = None
    mapping: dict[str, Any] | None = None
    chunk: ChunkTask | None = None
    chunks: tuple[ChunkTask, ...] = ()
    done: tuple[ChunkDone, ...] = ()
    plan_finished: bool = False
    plan_by_decode: bool = False


class Progress(Plain):
    """How far an attempt is. `environment` (provider, encoder, decoder, precision really used) is merged in."""

    frames_done: int = Field(default=0, ge=0)
    fps: float | None = None
    note: Annotated[str, Field(max_length=500)] = ""
    environment: dict[str, Any] = Field(default_factory=dict)


class HeartbeatAnswer(Plain):
    """Whether to go on. `reason`: "", or why not: cancelled, paused, superseded, draining.

    `carried_seconds`: the worker was said to live too, and has to be heard of again after so long; None: it was not.
    """

    alive: bool
    reason: str = ""
    next_seconds: float
    carried_seconds: float | None = None


class PlanResult(Plain):
    """The plan is whole: `chunks` of them, over `frames` frames."""

    kind: Literal["plan"] = "plan"
    chunks: int = Field(gt=0)
    frames: int = Field(gt=0)


class CastResult(Plain):
    """The cast is known. `mapping` None: nobody but a person can decide it. `members`: what a page shows of them.

    `notes`: what a person should know, each becomes an event of the job.
    """

    kind: Literal["cast"] = "cast"
    cast_key: str
    members: tuple[dict[str, Any], ...] = ()
    notes: tuple[str, ...] = ()
    mapping: dict[str, Any] | None = None


class RenderResult(Plain):
    """The chunk is rendered and its objects are in the store, one for each deliverable that needs one."""

    kind: Literal["render"] = "render"
    frames: int = Field(gt=0)
    outputs: dict[str, ObjectOut] = Field(min_length=1)
    report: dict[str, Any] = Field(default_factory=dict)
    environment: dict[str, Any] = Field(default_factory=dict)


class MergeResult(Plain):
    """Every deliverable was made, read back and checked."""

    kind: Literal["merge"] = "merge"
    deliverables: dict[str, ObjectOut] = Field(min_length=1)
    environment: dict[str, Any] = Field(default_factory=dict)


Result = PlanResult | CastResult | RenderResult | MergeResult
