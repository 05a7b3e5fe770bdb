"""The end of an attempt that did its work: what it made is accepted, and what follows is opened, in one transaction."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, LiteralString

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from farm.db.engine import Sessions, ask, transact
from farm.db.ids import new_id
from farm.db.tables import Chunk, Deliverable, Job, Plate
from farm.errors import ConflictError
from farm.jobs import lanes, ledger, moves
from farm.jobs.advance import advance
from farm.jobs.claim import Token, fresh_token, hand_over, slot_json
from farm.jobs.payload import load_claim
from farm.jobs.plan import check_plan
from farm.jobs.policy import DEFAULT, Policy, policy_json
from farm.jobs.report import Held, hold
from farm.jobs.states import AttemptState, JobState, TaskKind, TaskState
from farm.jobs.wire import CastResult, Claim, Lease, MergeResult, PlanResult, RenderResult, Result, Slot
from farm.words import counted


def finish(session: Session, lease: Lease, result: Result) -> None:
    """Accept the result of an attempt.

    StaleLeaseError when the lease no longer holds: nothing is changed, and the caller must remove the objects that it
    stored. A repetition of a finish that was committed changes nothing and raises nothing. ConflictError when the
    result is not what the plan asks for (frames, deliverables, gaps): report it with `fail`.
    """
    if isinstance(result, RenderResult):
        outcome, *_ = _quick_render(_within(session), lease, result, None, DEFAULT, "", "")
        if outcome == "done":
            return
    _finish(session, lease, result)


def _finish(session: Session, lease: Lease, result: Result) -> None:
    """The careful way: every row is locked and every rule looked at."""
    kind = TaskKind(result.kind)
    held = hold(session, lease, kind, ended=(AttemptState.DONE,))
    if held.again:
        return
    match result:
        case PlanResult():
            _plan(session, held, result)
        case CastResult():
            _cast(session, held, result)
        case RenderResult():
            _render(session, held, result)
        case MergeResult():
            _merge(session, held, result)
    moves.end_attempt(session, held.attempt, held.task, held.job, AttemptState.DONE, "It finished.")
    moves.move_task(session, held.task, TaskState.DONE, "Done.", attempt=held.attempt)
    if kind is TaskKind.MERGE:
        _complete(session, held.job)
    else:
        advance(session, held.job)


_FINISH = """SELECT outcome, taken, work
    FROM farm_finish_render_2(%s, %s, %s, %s, %s::jsonb, %s::jsonb, %s::jsonb, %s::jsonb, %s::jsonb, %s, %s)"""


@dataclass(frozen=True, slots=True)
class Followed:
    """What a slot got with the end of its attempt. `asked` False: the queue was not looked at, so call `claim`."""

    claim: Claim | None = None
    asked: bool = False


def finish_at_once(
    sessions: Sessions,
    lease: Lease,
    result: RenderResult,
    slot: Slot,
    policy: Policy = DEFAULT,
    *,
    token: Token = fresh_token,
) -> Followed | None:
    """Accept a render as `finish` does, and give the slot its next task: one round trip, one commit, waited for.

    None, and nothing done, where the end needs more than a chunk's row to be filled (the last chunk, a job that is
    being stopped, a lease that no longer holds): then call `finish`. The queue is not looked at where caps are at work,
    whose counts want a transaction of their own. It is tried once: after an InfrastructureError it may be done, and the
    slot may hold a task that it does not know.
    """
    attempt_id, lease_token = new_id(), token()

    def once(statement: LiteralString, parameters: Sequence[Any]) -> tuple[Any, ...] | None:
        return ask(sessions, statement, parameters, tries=1)

    outcome, taken, work = _quick_render(once, lease, result, slot, policy, attempt_id, lease_token)
    if outcome == "careful":
        return None
    if outcome != "taken":
        return Followed(asked=outcome == "none")
    if taken["kind"] == TaskKind.RENDER:  # there is nothing more to read or to write
        return Followed(load_claim(lambda _: (), slot, policy, attempt_id, lease_token, taken, work), asked=True)
    claim = transact(sessions, lambda s: hand_over(s, slot, policy, attempt_id, lease_token, taken, work))
    return Followed(claim, asked=True)


Ask = Callable[[LiteralString, Sequence[Any]], Sequence[Any] | None]


def _within(session: Session) -> Ask:
    return lambda statement, parameters: session.connection().exec_driver_sql(statement, tuple(parameters)).one()


def _quick_render(
    ask_for: Ask, lease: Lease, result: RenderResult, slot: Slot | None, policy: Policy, attempt_id: str, token: str
) -> tuple[str, Any, Any]:
    """Accept a chunk after which others are still to be rendered: all chunks but the last, so it has to be fast.

    "careful" without any change where something is out of the ordinary; the caller then goes the careful way.
    """
    row = ask_for(
        _FINISH,
        (
            lease.job_id,
            lease.task_id,
            lease.token,
            result.frames,
            json.dumps({name: out.model_dump(mode="json") for name, out in result.outputs.items()}),
            json.dumps(result.report),
            json.dumps(result.environment),
            None if slot is None else slot_json(slot),
            policy_json(policy),
            attempt_id,
            token,
        ),
    )
    outcome, taken, work = row or ("careful", None, None)
    return outcome, taken, work


def _plan(session: Session, held: Held, result: PlanResult) -> None:
    check_plan(session, held.job, result.chunks, result.frames)
    frames = session.scalar(select(Plate.frames).where(Plate.job_id == held.job.id))
    if frames != result.frames:
        raise ConflictError(
            f"The plan is over {counted(result.frames, 'frame')}, but the timeline has {frames}.",
            where=f"job {held.job.id}",
        )


def _cast(session: Session, held: Held, result: CastResult) -> None:
    job = held.job
    for note in result.notes:
        ledger.note(session, "job.cast", job_id=job.id, task_id=held.task.id, attempt_id=held.attempt.id, reason=note)
    job.cast_key, job.cast_members = result.cast_key, [dict(m) for m in result.members]
    if job.mapping is None and result.mapping is not None:
        job.mapping, job.mapping_by = result.mapping, "farm"
    lanes.ask_for_wire(session, job.id)


def _render(session: Session, held: Held, result: RenderResult) -> None:
    chunk = session.scalars(select(Chunk).where(Chunk.task_id == held.task.id)).one()
    where = f"job {held.job.id} chunk {chunk.position}"
    if result.frames != chunk.last - chunk.first:
        raise ConflictError(
            f"The chunk has {counted(chunk.last - chunk.first, 'frame')} by the plan, {result.frames} were rendered.",
            where=where,
        )
    missing = set(held.job.request["deliverables"]) - set(result.outputs)
    if missing:
        raise ConflictError(f"There is no output for {', '.join(sorted(missing))}.", where=where)
    chunk.attempt_id = held.attempt.id
    chunk.outputs = {name: out.model_dump(mode="json") for name, out in result.outputs.items()}
    chunk.report = result.report
    held.attempt.frames_done = result.frames
    held.attempt.environment = held.attempt.environment | result.environment


def _merge(session: Session, held: Held, result: MergeResult) -> None:
    if held.job.state is JobState.CANCELLING:
        return  # a cancelled job has no deliverable; its objects go with the job's
    wanted = set(held.job.request["deliverables"])
    if set(result.deliverables) != wanted:
        raise ConflictError(
            f"The job is for {', '.join(sorted(wanted))}; made was {', '.join(sorted(result.deliverables))}.",
            where=f"job {held.job.id}",
        )
    held.attempt.environment = held.attempt.environment | result.environment
    session.execute(
        update(Deliverable).where(Deliverable.job_id == held.job.id, Deliverable.current).values(current=False)
    )
    for name, out in result.deliverables.items():
        session.add(
            Deliverable(
                job_id=held.job.id,
                attempt_id=held.attempt.id,
                name=name,
                object_key=out.key,
                size=out.size,
                sha256=out.sha256,
                facts=out.facts,
            )
        )


def _complete(session: Session, job: Job) -> None:
    """The merge is done: say so, unless a person cancelled meanwhile (a cancelled job stays cancelled)."""
    if job.state is JobState.CANCELLING:
        moves.complete_stop(session, job)
        return
    if job.state in (JobState.QUEUED, JobState.RUNNING):
        moves.move_job(session, job, JobState.MERGING, "Every chunk is rendered.")
    moves.move_job(session, job, JobState.COMPLETED, "Every deliverable was made and verified.")
