"""What a plan or cast attempt makes known while it still works, so that others need not wait for its end.

Every call is one transaction, is fenced by the lease, and may be repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from farm.db.ids import new_id
from farm.db.tables import Chunk, Job, Plate, Task
from farm.errors import ConflictError, InputError
from farm.jobs import lanes, ledger, moves
from farm.jobs.advance import advance, mapping_decided
from farm.jobs.fit import fitting
from farm.jobs.payload import plan_finished
from farm.jobs.report import hold
from farm.jobs.request import JobRequest
from farm.jobs.states import AttemptState, TaskKind, TaskState
from farm.jobs.wire import ChunkPlan, Lease
from farm.words import counted

_FIELDS = ("first", "last", "seconds", "segment_key", "segment_sha256", "segment_size", "plan")


def publish_plate(session: Session, lease: Lease, *, facts: dict[str, Any], sha256: str, size: int) -> None:
    """Say what the probe found (PlateFacts as JSON), and what the plate's content really is.

    ConflictError when the content is not the one that was submitted: the plate was changed under its key or URI.
    """
    held = hold(session, lease, TaskKind.PLAN)
    plate = session.scalars(select(Plate).where(Plate.job_id == held.job.id)).one()
    if plate.sha256 is not None and plate.sha256 != sha256:
        raise ConflictError(
            "The plate is not the one that was submitted: its sha256 has changed.",
            where=f"job {held.job.id}",
            do="Submit the job again with the plate as it is now.",
        )
    plate.facts, plate.sha256, plate.size = facts, sha256, size


def publish_timeline(session: Session, lease: Lease, *, timeline_key: str, frames: int) -> None:
    """Say where the whole timeline lies and how many frames it has, once the scan has ended."""
    held = hold(session, lease, TaskKind.PLAN)
    session.execute(update(Plate).where(Plate.job_id == held.job.id).values(timeline_key=timeline_key, frames=frames))


def publish_chunk(session: Session, lease: Lease, chunk: ChunkPlan, codecs: Sequence[str] = ()) -> None:
    """Make a chunk known. Its render task is claimable at once where the mapping is decided, else as soon as it is.

    codecs: encoders that only some slots have, which its deliverables are planned with.
    A plan that runs again may publish the same chunk again: its render task stays as it is unless the range changed.
    """
    held = hold(session, lease, TaskKind.PLAN)
    job = held.job
    values = {name: getattr(chunk, name) for name in _FIELDS}
    values["by_decode"] = session.scalars(select(Plate.by_decode).where(Plate.job_id == job.id)).one()
    known = session.scalar(select(Chunk).where(Chunk.job_id == job.id, Chunk.position == chunk.position))
    if known is None:
        _add(session, job, chunk.position, values, codecs)
        advance(session, job)
        return
    same = (known.first, known.last, known.segment_sha256) == (chunk.first, chunk.last, chunk.segment_sha256)
    for name, value in values.items():
        setattr(known, name, value)
    known.planned = True
    _fit(session, job, known.task_id, codecs)
    if same:
        advance(session, job)
        return
    moves.discard_results(session, job, Chunk.position == chunk.position)
    moves.supersede(session, job, "The chunk was planned anew.", where=[Task.id == known.task_id])
    _reset(session, job, known.task_id, "The chunk was planned anew.")
    advance(session, job)


def _add(session: Session, job: Job, position: int, values: dict[str, Any], codecs: Sequence[str]) -> None:
    request = fitting(session, JobRequest.model_validate(job.request))
    task = Task(
        id=new_id(),
        job_id=job.id,
        lane_id=lanes.lane_id(session, job.submitter_id, TaskKind.RENDER, request, codecs=codecs),
        kind=TaskKind.RENDER,
        position=position,
        state=TaskState.WAITING,
        reason="" if mapping_decided(job) else "It waits for the mapping.",
        priority=job.priority,
        job_seq=job.seq,
        due=job.deadline,
    )
    session.add(task)
    session.flush()
    session.add(Chunk(task_id=task.id, job_id=job.id, position=position, **values))
    session.flush()


def _fit(session: Session, job: Job, task_id: str, codecs: Sequence[str]) -> None:
    """Let only slots claim the task that have what the chunk is planned with now."""
    request = fitting(session, JobRequest.model_validate(job.request))
    lane = lanes.lane_id(session, job.submitter_id, TaskKind.RENDER, request, codecs=codecs)
    task = session.get_one(Task, task_id)
    if task.lane_id != lane:
        task.lane_id = lane
        if task.state is TaskState.READY:
            ledger.wake(session, lane)


def _reset(session: Session, job: Job, task_id: str, reason: str) -> None:
    """Whatever the render task was, it waits for its inputs again."""
    others = [state for state in TaskState if state is not TaskState.WAITING]
    moves.move_tasks(session, job, others, TaskState.WAITING, reason, where=[Task.id == task_id])


def open_cast(session: Session, lease: Lease) -> None:
    """Let the cast be searched although the plan goes on: what is there is enough. No harm where none is needed."""
    held = hold(session, lease, TaskKind.PLAN)
    moves.move_tasks(
        session,
        held.job,
        [TaskState.WAITING],
        moves.ready_state(held.job),
        "Enough segments are there.",
        where=[Task.kind == TaskKind.CAST],
    )


def publish_mapping(session: Session, lease: Lease, mapping: dict[str, Any]) -> None:
    """Decide the mapping while the plan or cast attempt goes on, where it cannot change any more."""
    held = hold(session, lease)
    if held.task.kind not in (TaskKind.PLAN, TaskKind.CAST):
        raise ConflictError(f"A {held.task.kind} task decides no mapping.", where=f"job {held.job.id}")
    if held.job.mapping is None:
        held.job.mapping, held.job.mapping_by = mapping, "farm"
    advance(session, held.job)


def replan(session: Session, lease: Lease, reason: str) -> None:
    """Report that decoding gives other frames than the plan promised: the plate is planned again by a full decode.

    The reporting attempt ends here, without a result and at no cost; its task waits for the new plan. Chunks that come
    out the same stay as they are.
    InputError when the plan was made by decoding already: then the plate itself is at fault, report that with `fail`.
    """
    held = hold(session, lease)
    job = held.job
    plate = session.scalars(select(Plate).where(Plate.job_id == job.id).with_for_update()).one()
    if plate.by_decode and plan_finished(session, job.id):
        raise InputError(
            f"The plate decodes to other frames each time: {reason}",
            where=f"job {job.id}",
            do="Repair the plate, or convert it to an intermediate format, and submit it again.",
        )
    moves.end_attempt(session, held.attempt, held.task, job, AttemptState.INTERRUPTED, reason)
    again = "The plate is planned again, by decoding."
    moves.move_task(session, held.task, TaskState.WAITING, again, attempt=held.attempt)
    if not plate.by_decode:
        plate.by_decode = True
        _plan_again(session, job, again)
    advance(session, job)


def _plan_again(session: Session, job: Job, reason: str) -> None:
    both = Task.kind.in_((TaskKind.PLAN, TaskKind.MERGE))
    moves.supersede(session, job, reason, where=[both])
    begun = [state for state in TaskState if state is not TaskState.WAITING]
    moves.move_tasks(session, job, begun, TaskState.WAITING, reason, where=[both])
    plan = [Task.kind == TaskKind.PLAN]
    moves.move_tasks(session, job, [TaskState.WAITING], moves.ready_state(job), reason, where=plan)


def check_plan(session: Session, job: Job, chunks: int, frames: int) -> None:
    """ConflictError unless the chunks 0 .. `chunks` - 1 follow one another without a gap over `frames` frames.

    Chunks beyond these, left by an earlier plan, are removed with their tasks.
    """
    session.flush()
    stale = select(Chunk.task_id).where(Chunk.job_id == job.id, Chunk.position >= chunks)
    if ids := list(session.scalars(stale)):
        moves.supersede(session, job, "The plan has fewer chunks now.", where=[Task.id.in_(ids)])
        session.execute(delete(Task).where(Task.id.in_(ids)))
    rows = session.execute(
        select(Chunk.position, Chunk.first, Chunk.last).where(Chunk.job_id == job.id).order_by(Chunk.position)
    ).all()
    expected = 0
    for number, row in enumerate(rows):
        if row.position != number or row.first != expected:
            raise _gap(job, f"chunk {row.position} begins at frame {row.first}, not at {expected} as chunk {number}")
        expected = row.last
    if len(rows) != chunks or expected != frames:
        raise _gap(
            job,
            f"there are {counted(len(rows), 'chunk')} over {counted(expected, 'frame')}, not {chunks} over {frames}",
        )
    session.execute(update(Plate).where(Plate.job_id == job.id).values(frames=func.coalesce(Plate.frames, frames)))


def _gap(job: Job, what: str) -> ConflictError:
    return ConflictError(
        f"The plan has a gap: {what}.", where=f"job {job.id}", do="Publish every chunk before finishing the plan."
    )
