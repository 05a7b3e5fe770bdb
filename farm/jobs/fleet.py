"""The workers: what they are, what an operator wants them to be, and what becomes of their work when they leave."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from pydantic import Field
from sqlalchemy import delete, exists, func, select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from farm.db.base import seconds
from farm.db.enums import RequestedState, WorkerState
from farm.db.tables import Attempt, Block, SlotRow, Worker
from farm.errors import ErrorClass, NotFoundError, StaleLeaseError
from farm.jobs import ledger, worker_keys
from farm.jobs.fail import fail, lose
from farm.jobs.leases import lease_of
from farm.jobs.policy import DEFAULT, Policy
from farm.jobs.request import Name, Plain
from farm.jobs.schedules import off_duty
from farm.jobs.states import AttemptState, TaskKind
from farm.jobs.wire import WIRE, Slot


class WorkerReport(Plain):
    """What a worker says of itself when it starts. `rate`: money per GPU hour, where it is known."""

    id: str = Field(min_length=1, max_length=64)
    name: str
    tags: tuple[Name, ...] = ()
    capabilities: dict[str, Any] = Field(default_factory=dict)
    version: str = ""
    wire: int = WIRE
    rate: float | None = None
    slots: tuple[Slot, ...] = Field(min_length=1)
    devices: tuple[str, ...] = ()


_YOUNG_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Wish:
    """What an operator wants of the worker: None, or a state, at once or after its current tasks.

    `next_seconds`: when it should ask again, at the soonest.
    """

    requested: RequestedState | None
    after_task: bool
    next_seconds: float = field(default=0.0, compare=False)


def register(session: Session, report: WorkerReport, *, secret: str | None = None) -> None:
    """Make a worker known, or known again. An attempt that its former life still holds is handed back at once.

    PolicyError when the farm asks for a key and `secret` is none of a live one.
    """
    key_id = worker_keys.admit(session, report.id, secret)
    hand_back(session, report.id, "The worker has started anew.")
    row = {
        "name": report.name,
        "state": WorkerState.AWAKE,
        "reason": "It has started.",
        "tags": list(report.tags),
        "capabilities": report.capabilities,
        "version": report.version,
        "wire": report.wire,
        "rate": report.rate,
        "key_id": key_id,
        "started_at": func.clock_timestamp(),
        "seen_at": func.clock_timestamp(),
    }
    session.execute(
        insert(Worker).values(id=report.id, **row).on_conflict_do_update(index_elements=[Worker.id], set_=row)
    )
    session.execute(delete(SlotRow).where(SlotRow.worker_id == report.id))
    session.execute(insert(SlotRow), list(_slot_rows(report)))
    worker = session.get_one(Worker, report.id, populate_existing=True)
    if worker.requested in (RequestedState.RESTART, RequestedState.AWAKE):
        worker.requested = None
    ledger.note(session, "worker.state", worker_id=report.id, after=WorkerState.AWAKE, reason="It has started.")


def _slot_rows(report: WorkerReport) -> Iterable[dict[str, Any]]:
    for position, slot in enumerate(report.slots):
        yield {
            "worker_id": report.id,
            "number": slot.number,
            "device": report.devices[position] if position < len(report.devices) else "cpu",
            "vram_mb": slot.vram_mb,
            "kinds": [str(kind) for kind in slot.kinds],
            "models": None if slot.models is None else list(slot.models),
            "codecs": None if slot.codecs is None else list(slot.codecs),
        }


_LIVES = text("SELECT farm_lives_1(:id, :per_second)")
_INTERVAL = text("SELECT greatest(0, reltuples) / :per_second FROM pg_class WHERE oid = 'worker'::regclass")


def beat(
    session: Session,
    worker_id: str,
    state: WorkerState = WorkerState.AWAKE,
    reason: str = "",
    policy: Policy = DEFAULT,
) -> Wish:
    """Say that the worker lives and what it is; hear what it should become. NotFoundError: register (again) first."""
    if state is WorkerState.AWAKE:
        well = session.scalar(_LIVES, {"id": worker_id, "per_second": policy.worker_beats_per_second})
        if well is not None:
            return Wish(None, after_task=True, next_seconds=well)
    seconds = interval(session, policy)
    worker = _worker(session, worker_id)
    if state is WorkerState.AWAKE:
        state, reason = _actual(session, worker)
    if worker.state is not state:
        before, worker.state = worker.state, state
        ledger.note(session, "worker.state", worker_id=worker_id, before=before, after=state, reason=reason)
        worker.reason = reason
    worker.seen_at = func.clock_timestamp()
    return Wish(worker.requested, worker.after_task, seconds)


def interval(session: Session, policy: Policy = DEFAULT) -> float:
    """After how many seconds each worker should be heard of again; their number is the planner's estimate."""
    return float(session.execute(_INTERVAL, {"per_second": policy.worker_beats_per_second}).scalar_one())


def _actual(session: Session, worker: Worker) -> tuple[WorkerState, str]:
    """What a worker that lives and works is, by what an operator and its schedule want of it, and why."""
    schedule = off_duty(session, worker.id, worker.tags)
    if worker.requested is RequestedState.AWAKE:
        if not schedule:  # it is what it was asked to be; outside its schedule the wish stands until that opens
            worker.requested = None
        return WorkerState.AWAKE, "An operator woke it." if schedule else ""
    told = f"An operator told it to be {worker.requested}." if worker.requested is not None else schedule
    if not told:
        return WorkerState.AWAKE, ""
    if worker.requested in (RequestedState.OFFLINE, RequestedState.RESTART) or _busy(session, worker.id):
        return WorkerState.DRAINING, told
    return WorkerState.ASLEEP, told


def _busy(session: Session, worker_id: str) -> bool:
    running = exists().where(Attempt.worker_id == worker_id, Attempt.state == AttemptState.RUNNING)
    return bool(session.scalar(select(running)))


def requested(session: Session, worker_id: str) -> RequestedState | None:
    """What an operator wants of a worker that does not run. NotFoundError when it is not known."""
    return _worker(session, worker_id).requested


def request_state(
    session: Session, worker_id: str, wanted: RequestedState, *, after_task: bool = True, actor: str, reason: str = ""
) -> None:
    """Ask a worker to become something. It claims nothing more at once; `after_task` False also stops its tasks."""
    worker = _worker(session, worker_id)
    if wanted is RequestedState.AWAKE:
        if (
            worker.requested is RequestedState.ASLEEP or worker.state is WorkerState.ASLEEP
        ):  # its process is there: it may claim at once
            worker.state, worker.reason = WorkerState.AWAKE, "An operator woke it."
        stays = worker.state is not WorkerState.AWAKE or off_duty(session, worker_id, worker.tags)
        worker.requested = wanted if stays else None
    else:
        worker.requested = wanted
    worker.after_task = after_task
    ledger.call(session, worker_id)
    ledger.note(
        session,
        "worker.requested",
        worker_id=worker_id,
        after=wanted,
        actor=actor,
        reason=reason,
        data={"after_task": after_task},
    )


def leave(session: Session, worker_id: str, reason: str) -> int:
    """The worker goes now (drained, or its machine is taken away): its tasks are handed back. Returns how many."""
    worker = _worker(session, worker_id)
    given_back = hand_back(session, worker_id, reason)
    before, worker.state, worker.reason = worker.state, WorkerState.OFFLINE, reason
    if before is not WorkerState.OFFLINE:
        ledger.note(
            session, "worker.state", worker_id=worker_id, before=before, after=WorkerState.OFFLINE, reason=reason
        )
    return given_back


def hand_back(session: Session, worker_id: str, reason: str) -> int:
    """Hand back whatever the worker holds, at no cost to the tasks. Returns how many."""
    held = session.scalars(
        select(Attempt)
        .where(Attempt.worker_id == worker_id, Attempt.state == AttemptState.RUNNING)
        .order_by(Attempt.job_id)
    ).all()
    handed = 0
    for attempt in held:
        try:
            fail(session, lease_of(attempt), ErrorClass.INTERRUPTED, reason)
            handed += 1
        except StaleLeaseError:
            continue  # it ended while this was looking
    return handed


def release_slot(session: Session, worker_id: str, number: int) -> int:
    """Hand back what a slot holds without knowing it: the answer to its claim was lost. Returns how many."""
    held = session.scalars(
        select(Attempt).where(
            Attempt.worker_id == worker_id, Attempt.slot == number, Attempt.state == AttemptState.RUNNING
        )
    ).all()
    for attempt in held:
        with suppress(StaleLeaseError):  # it ended while this was looking
            fail(session, lease_of(attempt), ErrorClass.INTERRUPTED, "The slot never heard that it had claimed it.")
    return len(held)


def bury(session: Session, worker_id: str, alive: Collection[int], *, policy: Policy = DEFAULT) -> int:
    """End the attempts of slots whose process is gone; `alive` are the numbers of those that live. Returns how many.

    An attempt is looked at only when its claim is a few seconds old: a child that was forked a moment ago may not be in
    `alive` yet.
    """
    dead = session.scalars(
        select(Attempt)
        .where(
            Attempt.worker_id == worker_id,
            Attempt.state == AttemptState.RUNNING,
            Attempt.slot.not_in(alive),
            Attempt.started_at < func.clock_timestamp() - seconds(_YOUNG_SECONDS),
        )
        .order_by(Attempt.job_id)
    ).all()
    buried = 0
    for attempt in dead:
        with suppress(StaleLeaseError):  # it ended while this was looking
            reason = f"The process of slot {attempt.slot} of worker {worker_id} died."
            buried += lose(session, lease_of(attempt), reason, policy)
    return buried


def lift_blocks(session: Session, worker_id: str, *, job_id: str | None = None, actor: str) -> int:
    """Forgive a worker the tasks that it failed, of one job or of all. Returns how many blocks there were."""
    wanted = delete(Block).where(Block.worker_id == worker_id)
    if job_id is not None:
        wanted = wanted.where(Block.job_id == job_id)
    lifted = session.execute(wanted.returning(Block.job_id, Block.kind)).all()
    for job, kind in lifted:
        ledger.note(
            session,
            "worker.forgiven",
            job_id=job,
            worker_id=worker_id,
            actor=actor,
            reason=f"It may take {TaskKind(kind)} tasks again.",
        )
    return len(lifted)


def _worker(session: Session, worker_id: str) -> Worker:
    worker = session.get(Worker, worker_id, with_for_update={"key_share": True}, populate_existing=True)
    if worker is None:
        raise NotFoundError("There is no such worker.", where=f"worker {worker_id}", do="See `farm workers`.")
    return worker
