"""What a job is and may become. PostgreSQL is the truth; every message is a wake-up that may be lost or doubled.

Every function here takes a `Session`, does its whole change in that session's transaction, and commits nothing itself:
call it inside `with sessions.begin() as session:` or, with retries for lost connections and deadlocks, through
`farm.db.engine.transact(sessions, lambda session: ...)`. Each may be called again when the answer to a commit was lost.
All times are the database's.

Submitting and commanding (API, CLI, triggers)
    submit(session, request, *, idempotency_key, job_id, actor) -> Submitted(job_id, created)
    cancel / delete / pause / resume(session, job_id, *, actor, reason) -> JobState
    requeue(session, job_id, *, actor, what="failed" | "job" | chunk number, reason) -> JobState
    rerender(session, job_id, recipe, *, permit, actor, reason) -> JobState       an ended job, with another recipe
    choose_mapping(session, job_id, mapping, *, actor) -> JobState
    replace_cast(session, job_id, before, after, members, *, actor, reason)
    accept_as_is(session, job_id, position, *, actor, reason) -> JobState
    set_priority(session, job_id, priority, *, actor)

Working (a worker's slot)
    claim(session, slot) -> Claim | None               commit, then work; the lease is in claim.lease
    heartbeat(sessions, lease, progress) -> HeartbeatAnswer(alive, reason, next_seconds)    a transaction of its own
    publish_plate, publish_chunk, publish_timeline, open_cast, publish_mapping(session, lease, ...)
    reusable(session, lease, digest) -> Reusable | None   what is made of the same need not be made again
    finish(session, lease, PlanResult | CastResult | RenderResult | MergeResult)
    finish_at_once(sessions, lease, result, slot) -> Followed(claim, asked)      a render's end and the next claim in
                                                     one round trip; None: nothing done, call finish
    fail(session, lease, error_class, message) -> TaskState
    replan(session, lease, reason)                    PlanMismatchError: plan again by decoding, instead of failing

The plan task publishes facts, then chunk after chunk, then the timeline, then finishes with the number of chunks and
frames. The cast task (only where the recipe changes faces) opens when the plan has finished or called `open_cast`,
and finishes with the decided mapping, or with None: then the job is `awaiting_cast` until `choose_mapping`. A chunk's
render task is claimable from the moment its segment is published and the mapping is decided. The merge task opens
when every chunk is done; only its finish completes the job.

A StaleLeaseError from a report means: another attempt may be at work, drop everything and delete what you stored.

Reading: `farm.jobs.views`. Repairing: `farm.jobs.reconcile`. States and transitions: `farm.jobs.states`.
"""

from __future__ import annotations

from farm.jobs.claim import claim
from farm.jobs.commands import (
    accept_as_is,
    cancel,
    choose_mapping,
    delete,
    pause,
    replace_cast,
    requeue,
    resume,
    set_priority,
)
from farm.jobs.fail import expire, fail
from farm.jobs.finish import Followed, finish, finish_at_once
from farm.jobs.plan import open_cast, publish_chunk, publish_mapping, publish_plate, publish_timeline, replan
from farm.jobs.policy import Policy
from farm.jobs.report import heartbeat
from farm.jobs.request import IdentityRef, JobRequest, Needed, PictureRef, PlateRef
from farm.jobs.rerender import rerender
from farm.jobs.reuse import reusable
from farm.jobs.states import AttemptState, JobState, TaskKind, TaskState
from farm.jobs.submit import Submitted, submit
from farm.jobs.wire import (
    CastResult,
    ChunkDone,
    ChunkPlan,
    ChunkTask,
    Claim,
    HeartbeatAnswer,
    JobSpec,
    Lease,
    MergeResult,
    ObjectOut,
    PlanResult,
    Progress,
    RenderResult,
    Slot,
)

__all__ = [
    "AttemptState",
    "CastResult",
    "ChunkDone",
    "ChunkPlan",
    "ChunkTask",
    "Claim",
    "Followed",
    "HeartbeatAnswer",
    "IdentityRef",
    "JobRequest",
    "JobSpec",
    "JobState",
    "Lease",
    "MergeResult",
    "Needed",
    "ObjectOut",
    "PictureRef",
    "PlanResult",
    "PlateRef",
    "Policy",
    "Progress",
    "RenderResult",
    "Slot",
    "Submitted",
    "TaskKind",
    "TaskState",
    "accept_as_is",
    "cancel",
    "choose_mapping",
    "claim",
    "delete",
    "expire",
    "fail",
    "finish",
    "finish_at_once",
    "heartbeat",
    "open_cast",
    "pause",
    "publish_chunk",
    "publish_mapping",
    "publish_plate",
    "publish_timeline",
    "replace_cast",
    "replan",
    "requeue",
    "rerender",
    "resume",
    "reusable",
    "set_priority",
    "submit",
]
