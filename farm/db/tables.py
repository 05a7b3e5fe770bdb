"""Every table, by its noun: `farm.db.{people,job,work,fleet,log}` define them, this module names them in one place."""

from __future__ import annotations

from farm.db.base import Base
from farm.db.fleet import Footprint, Schedule, SlotRow, Worker, WorkerKey
from farm.db.job import Batch, Deliverable, Dependency, IdentityPicture, IdentityRow, Job, Plate
from farm.db.log import Delivery, Event, Outbox, Webhook
from farm.db.people import Project, Submitter
from farm.db.work import Attempt, Block, Chunk, Fingerprint, Lane, Task

__all__ = [
    "Attempt",
    "Base",
    "Batch",
    "Block",
    "Chunk",
    "Deliverable",
    "Delivery",
    "Dependency",
    "Event",
    "Fingerprint",
    "Footprint",
    "IdentityPicture",
    "IdentityRow",
    "Job",
    "Lane",
    "Outbox",
    "Plate",
    "Project",
    "Schedule",
    "SlotRow",
    "Submitter",
    "Task",
    "Webhook",
    "Worker",
    "WorkerKey",
]
