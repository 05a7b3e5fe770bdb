"""Answers "why is nothing happening?" for a job, a task and a worker: one sentence, for a person."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Row, func, select, text
from sqlalchemy.orm import Session

from farm.db.enums import WorkerState
from farm.db.tables import Attempt, Block, Dependency, Job, Task, Worker
from farm.errors import NotFoundError
from farm.jobs.policy import DEFAULT, Policy
from farm.jobs.states import FINAL_JOB_STATES, AttemptState, JobState, TaskState
from farm.words import counted

_QUIET_SECONDS = 30.0

# Everything that a claim looks at, as separate answers, for the lane of one task.
_OBSTACLES = text("""
    WITH live AS (
        SELECT w.id, w.tags, w.wire, s.vram_mb, s.kinds, s.models, s.codecs,
               CASE WHEN w.state = 'awake' THEN '' ELSE w.reason END AS reason,
               w.state = 'awake' AND w.requested IS NULL AS takes_work,
               count(*) OVER (PARTITION BY w.id) > (
                   SELECT count(*) FROM attempt a WHERE a.worker_id = w.id AND a.state = 'running') AS free
        FROM worker w JOIN slot s ON s.worker_id = w.id
        WHERE w.seen_at > clock_timestamp() - make_interval(secs => :silent) AND w.state <> 'offline'),
    able AS (SELECT live.* FROM live, lane l WHERE l.id = :lane AND (live.kinds = '{}' OR l.kind = ANY (live.kinds))),
    tagged AS (SELECT able.* FROM able, lane l WHERE l.id = :lane AND l.tags <@ able.tags)
    SELECT l.kind, l.tags, l.vram_mb, l.models, l.codecs, l.wire,
        p.name AS project, p.running AS project_running, p.max_running AS project_cap, p.budget_state,
        s.owner, s.running AS owner_running, s.max_running AS owner_cap,
        (SELECT count(*) FROM live) AS live,
        (SELECT count(*) FROM live WHERE takes_work) AS awake,
        (SELECT count(*) FROM able) AS able,
        (SELECT count(*) FROM tagged) AS tagged,
        (SELECT count(*) FROM tagged WHERE takes_work) AS tagged_awake,
        (SELECT min(reason) FROM tagged WHERE NOT takes_work) AS resting,
        (SELECT max(vram_mb) FROM tagged) AS largest,
        (SELECT max(vram_mb) FROM tagged WHERE takes_work AND free) AS largest_free,
        (SELECT count(*) FROM tagged t WHERE t.wire >= l.wire) AS with_wire,
        (SELECT count(*) FROM tagged t WHERE t.models IS NULL OR l.models <@ t.models) AS with_models,
        (SELECT count(*) FROM tagged t WHERE t.codecs IS NULL OR l.codecs <@ t.codecs) AS with_codecs,
        (SELECT count(DISTINCT t.id) FROM tagged t WHERE NOT EXISTS (
            SELECT 1 FROM block b WHERE b.worker_id = t.id AND b.job_id = :job AND b.kind = l.kind)) AS unblocked,
        (SELECT count(*) FROM attempt a WHERE a.job_id = :job AND a.state = 'running') AS job_running,
        (SELECT count(*) FROM attempt a WHERE a.state = 'running'
            AND a.worker_id IN (SELECT id FROM tagged WHERE takes_work)) AS busy
    FROM lane l JOIN submitter s ON s.id = l.submitter_id JOIN project p ON p.id = s.project_id
    WHERE l.id = :lane""")


def why_job(session: Session, job_id: str, policy: Policy = DEFAULT) -> str:
    """Why a job is where it is, and whether it will miss its deadline. NotFoundError when there is none."""
    job = session.get(Job, job_id)
    if job is None:
        raise NotFoundError("There is no such job.", where=f"job {job_id}", do="List the jobs with `farm jobs`.")
    why = _why_job(session, job, policy)
    if job.late_since is None or job.state in FINAL_JOB_STATES:
        return why
    return f"{why} It will miss its deadline, {job.deadline:%Y-%m-%d %H:%M} UTC."


def _why_job(session: Session, job: Job, policy: Policy) -> str:
    if job.delete_at is not None and job.state in FINAL_JOB_STATES:
        return "It is being deleted: the reconciler removes what is stored of it, then its rows."
    if job.state in FINAL_JOB_STATES or job.state in (JobState.PAUSED, JobState.AWAITING_CAST):
        return f"It is {job.state.replace('_', ' ')}: {job.reason}"
    if job.state is JobState.WAITING:
        return _why_waiting(session, job)
    running = session.execute(
        select(Attempt.worker_id, Attempt.note, Task.kind, Task.position, _age(Attempt.started_at).label("age"))
        .join(Task, Task.id == Attempt.task_id)
        .where(Attempt.job_id == job.id, Attempt.state == AttemptState.RUNNING)
        .order_by(Attempt.started_at)
    ).all()
    if running:
        return _why_running(job, list(running))
    task = session.scalar(
        select(Task)
        .where(Task.job_id == job.id, Task.state.in_((TaskState.READY, TaskState.BACKOFF)))
        .order_by(Task.state.desc(), Task.position)
        .limit(1)
    )
    return why_task(session, task, policy) if task else "It is about to go on: the reconciler looks at it next."


def _age(moment: Any) -> Any:
    return func.extract("epoch", func.clock_timestamp() - moment)


def _why_waiting(session: Session, job: Job) -> str:
    needs = session.execute(
        select(Job.id, Job.state)
        .join(Dependency, Dependency.needs_id == Job.id)
        .where(Dependency.job_id == job.id, Job.state.not_in(FINAL_JOB_STATES))
    ).all()
    if not needs:
        return "The jobs that it needs have ended; it is about to start."
    return "It waits for " + ", ".join(f"job {need.id} ({need.state})" for need in needs) + "."


def _why_running(job: Job, running: list[Row[Any]]) -> str:
    first = running[0]
    what = f"chunk {first.position}" if first.kind == "render" else f"its {first.kind}"
    note = f": {first.note}" if first.note else ""
    if job.state in (JobState.PAUSING, JobState.CANCELLING):
        left = _attempts(len(running))
        return f"It is {job.state}: {left} still to stop, the oldest on worker {first.worker_id}."
    more = f", and {len(running) - 1} more" if len(running) > 1 else ""
    return f"Worker {first.worker_id} has had {what} for {first.age:.0f} s{note}{more}."


def why_task(session: Session, task: Task, policy: Policy = DEFAULT) -> str:
    """Why nobody has claimed a task."""
    if task.state is TaskState.BACKOFF:
        left = session.scalar(select(-_age(Task.not_before)).where(Task.id == task.id))
        return f"It is tried again in {max(float(left or 0), 0):.0f} s: {task.reason}"
    if task.state is TaskState.RUNNING:
        return _why_busy(session, task)
    if task.state is not TaskState.READY:
        return f"It is {task.state}: {task.reason}" if task.reason else f"It is {task.state}."
    row = session.execute(
        _OBSTACLES, {"lane": task.lane_id, "job": task.job_id, "silent": policy.worker_silent_seconds}
    ).one()
    job = session.get_one(Job, task.job_id)
    return _obstacle(row, job) or "A worker that can do it is free; it is claimed with the next wake-up."


def _why_busy(session: Session, task: Task) -> str:
    """Who has a task, for how long, and how long it has said nothing new."""
    row = session.execute(
        select(
            Attempt.worker_id,
            Attempt.note,
            Attempt.frames_done,
            _age(Attempt.started_at).label("age"),
            _age(Attempt.progress_at).label("quiet"),
        ).where(Attempt.task_id == task.id, Attempt.state == AttemptState.RUNNING)
    ).one_or_none()
    if row is None:
        return "It has just ended."
    note = f": {row.note}" if row.note else ""
    frames = f", {counted(row.frames_done, 'frame')} done" if row.frames_done else ""
    quiet = f"; nothing new for {row.quiet:.0f} s" if row.quiet > _QUIET_SECONDS else ""
    return f"Worker {row.worker_id} has had it for {row.age:.0f} s{note}{frames}{quiet}."


def _attempts(number: int) -> str:
    return counted(number, "attempt")


def _obstacle(row: Row[Any], job: Job) -> str:
    """The first thing that keeps a ready task from being claimed, "" when there is none."""
    obstacles = (
        (row.live == 0, "No worker is connected."),
        (row.awake == 0, f"Every worker is asleep, draining or told to leave. {row.resting or ''}".strip()),
        (row.budget_state == "stopped", f"The budget of project {row.project} is used up."),
        (
            row.project_cap is not None and row.project_running >= (row.project_cap or 0),
            f"Project {row.project} has {_attempts(row.project_running)} running; its cap is {row.project_cap}.",
        ),
        (
            row.owner_cap is not None and row.owner_running >= (row.owner_cap or 0),
            f"{row.owner or 'Its submitter'} has {_attempts(row.owner_running)} running; the cap is {row.owner_cap}.",
        ),
        (
            job.max_running is not None and row.job_running >= (job.max_running or 0),
            f"The job has {_attempts(row.job_running)} running; its cap is {job.max_running}.",
        ),
        (row.able == 0, f"No connected worker takes {row.kind} tasks."),
        (row.tagged == 0, f"No connected worker has the tags {', '.join(row.tags)}."),
        (
            row.tagged_awake == 0,
            f"Every worker that takes {_named(row)} is asleep, draining or told to leave. {row.resting or ''}".strip(),
        ),
        (
            row.largest is not None and row.vram_mb > row.largest,
            f"It needs {row.vram_mb} MB of GPU memory; the largest slot has {row.largest} MB.",
        ),
        (
            row.largest_free is not None and row.vram_mb > row.largest_free,
            f"It needs {row.vram_mb} MB of GPU memory; the largest free slot has {row.largest_free} MB.",
        ),
        (
            row.with_wire == 0,
            f"No worker that could do it is new enough (wire {row.wire}): upgrade one, farm worker restart ID.",
        ),
        (row.with_models == 0, f"No worker has the models {', '.join(row.models)}."),
        (row.with_codecs == 0, f"No worker has the codecs {', '.join(row.codecs)}."),
        (
            row.unblocked == 0,
            "Every worker that could do it is blocked for this job: it failed too many of its tasks.",
        ),
        (
            row.busy >= row.tagged_awake,
            f"Each of the {counted(row.tagged_awake, 'slot')} that could do it is busy with other work.",
        ),
    )
    return next((sentence for holds, sentence in obstacles if holds), "")


def _named(row: Row[Any]) -> str:
    return f"{row.kind} tasks with the tags {', '.join(row.tags)}" if row.tags else f"{row.kind} tasks"


def why_worker(session: Session, worker_id: str, policy: Policy = DEFAULT) -> str:
    """Why a worker does nothing, or what it does. NotFoundError when it is not known."""
    worker = session.get(Worker, worker_id)
    if worker is None:
        raise NotFoundError("There is no such worker.", where=f"worker {worker_id}", do="See `farm workers`.")
    silent = session.scalar(select(_age(Worker.seen_at)).where(Worker.id == worker_id)) or 0
    if worker.state is WorkerState.OFFLINE or silent > policy.worker_silent_seconds:
        return f"It was last heard of {silent:.0f} s ago. {worker.reason}".strip()
    busy = session.scalar(
        select(func.count()).where(Attempt.worker_id == worker_id, Attempt.state == AttemptState.RUNNING)
    )
    if worker.requested is not None:
        return f"It was told to be {worker.requested}" + (f"; first {counted(busy, 'task')} must end." if busy else ".")
    if worker.state is not WorkerState.AWAKE:
        return f"It is {worker.state}: {worker.reason}"
    if busy:
        return f"It works on {counted(busy, 'task')}."
    ready = session.scalar(select(func.count()).select_from(_some_ready().subquery()))
    if not ready:
        return "No task is ready."
    blocked = session.scalar(select(func.count()).where(Block.worker_id == worker_id))
    if blocked:
        return f"It is blocked for {counted(blocked, 'job')}, whose tasks it failed; no other ready task fits it."
    return "No ready task fits its kinds, tags, memory or models."


def _some_ready() -> Any:
    return select(Task.id).where(Task.state == TaskState.READY).limit(1)
