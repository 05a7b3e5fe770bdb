"""What goes over the wire, in both directions; shared by the API and its client. Plain data, no Flask."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from farm.provenance.consent import Consent

LABEL = r"^[a-z0-9][a-z0-9_-]{0,39}$"
DEFAULT_LABEL = "identity"


class _In(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class IdentityIn(_In):
    """A face to be put in: which pictures and clips show it, and which face in them where there are several.

    `pictures` are URIs of the store (pictures or clips), or empty where they are parts of the upload: those called
    `identity` for the label "identity", `identity.<label>` for others. `face` counts faces from 0, left to right.
    """

    label: str = Field(default=DEFAULT_LABEL, pattern=LABEL)
    pictures: tuple[str, ...] = ()
    face: int | None = Field(default=None, ge=0, le=99)


class JobIn(_In):
    """The options of a job: the `options` part of an upload, or the whole body where the plate is in the store.

    `mapping` says which people of the plate get which identity; None: the one with the most screen time gets the
    first. `deliverables` are names of GET /deliverables.
    """

    plate: str | None = Field(default=None, description="URI of the plate in the farm's store; not with an upload.")
    title: str = Field(default="", max_length=200)
    recipe: str = "swap"
    settings: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description="Settings of the recipe's processors by kind, over the preset's own."
    )
    deliverables: tuple[str, ...] = Field(default=("h264",), min_length=1, max_length=16)
    identities: tuple[IdentityIn, ...] = Field(default=(), max_length=32)
    mapping: dict[str, Any] | None = None
    choose_mapping: bool = Field(default=False, description="Wait for POST /jobs/{id}/mapping when the cast is known.")
    consent: Consent = Consent()
    max_bytes: int | None = Field(
        default=None, ge=10_000, description="How large the deliverables may be that are made to a size (h264-fit)."
    )
    loudness: str | None = Field(
        default=None,
        description="Norm that the sound is brought to, ebu-r128 or atsc-a85; by default it is copied as it is.",
    )
    chunk_seconds: float | None = Field(default=None, ge=0.5, le=120)
    priority: int = Field(default=50, ge=0, le=100)
    deadline: AwareDatetime | None = Field(
        default=None, description="Of equal priority and share, the job with the earliest deadline goes first."
    )
    tags: tuple[str, ...] = Field(default=(), max_length=32)
    project: str = Field(
        default="default", min_length=1, max_length=100, description="Whose shares and budget it uses."
    )
    owner: str = Field(default="", max_length=200, description="Who submits it, for shares and caps by person.")
    batch: str | None = Field(default=None, min_length=1, max_length=200, description="Jobs watched as one.")
    needs: tuple[str, ...] = Field(default=(), max_length=100, description="Jobs that must have completed before.")
    needs_ended: tuple[str, ...] = Field(
        default=(), max_length=100, description="Jobs that must have ended before, in whatever way."
    )
    max_running: int | None = Field(default=None, ge=1, description="Most of its tasks at once.")
    max_attempts: int | None = Field(default=None, ge=1, le=20, description="Most charged tries of one task.")
    max_retries: int | None = Field(
        default=None, ge=0, description="Most charged failures of all its tasks together; FARM_MAX_RETRIES by default."
    )
    vram_mb: int = Field(default=0, ge=0, description="GPU memory that a render slot must offer, MB.")


class Progress(BaseModel):
    """How far a job is. Frames are frames of the plate; `fps` is measured, `eta_seconds` follows from it.

    `eta_error` is the standard error of `eta_seconds`, once two chunks have told how much their rates differ.
    """

    frames_done: int = 0
    frames_total: int | None = None
    chunks_done: int = 0
    chunks_total: int | None = None
    fps: float | None = None
    eta_seconds: float | None = None
    eta_error: float | None = None


class DeliverableOut(BaseModel):
    """A finished file. `verified` is what was found by reading it back."""

    name: str
    size: int
    sha256: str
    filename: str
    url: str
    verified: dict[str, Any] = {}


class WarningOut(BaseModel):
    code: str
    text: str


class JobOut(BaseModel):
    """A job as it stands. `reason` says why it is in this state, `why` what happens just now, or why nothing.

    `cost` is money by the rates of its workers, None where none of them has one. `deleting`: it is on its way out.
    """

    id: str
    state: str
    final: bool
    reason: str = ""
    error_class: str | None = None
    why: str = ""
    title: str = ""
    recipe: str
    deliverables_wanted: list[str] = []
    priority: int
    deadline: datetime | None = None
    tags: list[str] = []
    max_attempts: int | None = None
    max_retries: int | None = None
    deleting: bool = False
    progress: Progress = Progress()
    project: str = "default"
    owner: str = ""
    batch: str | None = None
    gpu_seconds: float = 0
    cost: float | None = None
    warnings: list[WarningOut] = []
    plate: dict[str, Any] | None = None
    cast: list[dict[str, Any]] | None = None
    deliverables: list[DeliverableOut] = []
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None


class CastOut(BaseModel):
    """The people of a plate. `editable`: the job waits for its mapping, so members may be merged and split.

    `identities`: labels that a mapping may name. Each of `members` has `id`, `screen_seconds`, `first_seconds`,
    `last_seconds`, `first` and `last` (time codes), `sightings`, and `appearances` with a `number` and the same.
    """

    job: str
    frames_seen: int
    editable: bool
    identities: list[str]
    members: list[dict[str, Any]]


class BatchOut(BaseModel):
    """Jobs watched as one. `states` counts them by state; `progress` is over the frames that are known so far."""

    name: str
    jobs: int
    states: dict[str, int]
    final: bool
    progress: Progress
    gpu_seconds: float
    cost: float | None = None


class JobPage(BaseModel):
    """Newest first. `next` is the cursor of the following page, None on the last."""

    items: list[JobOut]
    next: str | None = None


class ChunkOut(BaseModel):
    """Frames [first, last) of the plate and how far they are."""

    index: int
    first: int
    last: int
    seconds: float
    state: str
    reason: str = ""
    attempts: int = 0
    frames_done: int = 0
    worker: str | None = None


class ChunkList(BaseModel):
    items: list[ChunkOut]


class AttemptOut(BaseModel):
    """One try by one slot: what it used (`environment`), and why it ended.

    `error` is for a person; `cause` says which error was at the bottom and where in the code. `cost` is money, where
    the worker has a rate.
    """

    id: str
    task_id: str
    kind: str
    position: int
    number: int
    worker: str
    state: str
    frames_done: int = 0
    fps: float | None = None
    note: str = ""
    error_class: str | None = None
    error: str | None = None
    cause: str | None = None
    environment: dict[str, Any] = {}
    gpu_seconds: float = 0
    cost: float | None = None
    started_at: datetime
    ended_at: datetime | None = None


class AttemptList(BaseModel):
    items: list[AttemptOut]


class AttemptQuery(_In):
    limit: int = Field(default=1000, ge=1, le=10_000)


class LogPart(BaseModel):
    """Text of a log; `next` is the offset (bytes) of what follows. `ended`: nothing more will come."""

    text: str
    next: int
    ended: bool


class EventOut(BaseModel):
    """One change and its reason."""

    id: int
    at: datetime
    kind: str
    before: str | None = None
    after: str | None = None
    actor: str = ""
    reason: str = ""
    data: dict[str, Any] = {}


class WorkerOut(BaseModel):
    """`requested` is what an operator wants of it, beside what it is. `blocks`: what it gets no more until forgiven."""

    id: str
    name: str
    state: str
    requested: str | None = None
    reason: str = ""
    tags: list[str] = []
    slots: int
    busy: int
    version: str
    seen_at: datetime
    capabilities: dict[str, Any] = {}
    devices: list[str] = []
    rate: float | None = None
    blocks: list[str] = []


class WorkerList(BaseModel):
    items: list[WorkerOut]


class TaskNow(BaseModel):
    """What a slot has at the moment. `frames_total` is the chunk's, None for what is not a chunk."""

    job: str
    title: str = ""
    kind: str
    position: int
    worker: str
    attempt: str
    frames_done: int
    frames_total: int | None = None
    fps: float | None = None
    note: str = ""
    seconds: float
    quiet_seconds: float


class FailingChunk(BaseModel):
    """A chunk that failed, or was tried more often than once and is not done."""

    job: str
    title: str = ""
    position: int
    state: str
    reason: str
    attempts: int


class ShareOut(BaseModel):
    """A project's part of what runs, beside the part that its weight gives it among those that want to run."""

    name: str
    running: int
    ready: int
    share: float
    target: float
    max_running: int | None = None
    gpu_seconds: float
    budget_gpu_seconds: float | None = None
    money: float = 0
    budget_money: float | None = None
    budget_state: str


class FarmOut(BaseModel):
    """The farm at a glance. `word` says it in one: active, idle, waiting, asleep or inoperative.

    `queue` counts tasks that are ready by kind, and `oldest_seconds` is how long the oldest of them has been.
    """

    word: str
    why: str
    jobs: dict[str, int]
    queue: dict[str, int]
    oldest_seconds: float | None = None
    tasks: list[TaskNow]
    failing: list[FailingChunk]
    shares: list[ShareOut]


class RecipeOut(BaseModel):
    name: str
    version: int
    title: str
    digest: str
    processors: list[dict[str, Any]]
    usable: bool = True
    why: str = Field(default="", description="Why a job with it would be refused here, and what to do about it.")


class RecipeList(BaseModel):
    items: list[RecipeOut]


class DeliverableKind(BaseModel):
    """A kind of file that a job may ask for."""

    name: str
    version: int
    title: str
    suffix: str


class DeliverableKindList(BaseModel):
    items: list[DeliverableKind]


class Check(BaseModel):
    """One thing the farm needs, and whether it is there."""

    name: str
    ok: bool
    detail: str = ""


class Health(BaseModel):
    ok: bool
    version: str
    checks: list[Check] = []


class CommandIn(_In):
    """Why an operator does it; kept with the job."""

    reason: str = Field(default="", max_length=500)


class MergeIn(_In):
    """`others` are the same person as `into`, which keeps its id."""

    into: str = Field(max_length=40)
    others: tuple[str, ...] = Field(min_length=1, max_length=1000)


class SplitIn(_In):
    """The appearances (by number) of `member` that are somebody else."""

    member: str = Field(max_length=40)
    appearances: tuple[int, ...] = Field(min_length=1, max_length=1000)


class JobQuery(_In):
    """Filters of the job list. `state` may be "open" or "final"."""

    state: str | None = None
    project: str | None = None
    batch: str | None = None
    limit: int = Field(default=50, ge=1, le=200)
    cursor: str | None = None
