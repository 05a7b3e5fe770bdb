"""The words that a state column may hold. What may follow what, and why, stands in `farm.jobs.states`."""

from __future__ import annotations

from enum import StrEnum


class JobState(StrEnum):
    WAITING = "waiting"
    QUEUED = "queued"
    RUNNING = "running"
    AWAITING_CAST = "awaiting_cast"
    MERGING = "merging"
    PAUSING = "pausing"
    PAUSED = "paused"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"
    FAILED = "failed"
    COMPLETED = "completed"


class TaskKind(StrEnum):
    PLAN = "plan"
    CAST = "cast"
    RENDER = "render"
    MERGE = "merge"


class TaskState(StrEnum):
    WAITING = "waiting"
    READY = "ready"
    RUNNING = "running"
    BACKOFF = "backoff"
    PAUSED = "paused"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class AttemptState(StrEnum):
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    EXPIRED = "expired"
    SUPERSEDED = "superseded"


class WorkerState(StrEnum):
    STARTING = "starting"
    AWAKE = "awake"
    ASLEEP = "asleep"
    DRAINING = "draining"
    OFFLINE = "offline"
    ERROR = "error"


class RequestedState(StrEnum):
    """What an operator wants of a worker, beside what it is."""

    AWAKE = "awake"
    ASLEEP = "asleep"
    OFFLINE = "offline"
    RESTART = "restart"


class BudgetAction(StrEnum):
    """What happens when a project has used up its GPU seconds."""

    WARN = "warn"
    STOP = "stop"
    CANCEL = "cancel"


class BudgetState(StrEnum):
    """Where a project is with its budget. STOPPED: nothing of it is claimed any more."""

    OPEN = "open"
    WARNED = "warned"
    STOPPED = "stopped"


class OutboxTopic(StrEnum):
    """What a message is about. `wake`: there is work."""

    WAKE = "wake"
