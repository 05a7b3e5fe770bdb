"""What people see: views, progress, and one sentence about why nothing happens."""

from __future__ import annotations

import pytest
from sqlalchemy import update

from farm.db.engine import Sessions, transact
from farm.db.tables import Attempt, Project, Submitter, Worker
from farm.errors import NotFoundError
from farm.jobs import JobState, Slot, fleet, views, why
from tests.integration.jobs.hands import Hands


def test_a_job_as_it_stands(sessions: Sessions) -> None:
    hands = Hands(sessions)
    job = hands.submit(title="Reel 3", owner="ann", project="film")
    hands.plan(4)
    hands.finish(hands.must_claim())
    second = hands.must_claim()
    hands.beat(second, 4)
    with sessions() as session:
        view = views.job_view(session, job)
        assert (view.project, view.owner, view.title, view.state) == ("film", "ann", "Reel 3", JobState.RUNNING)
        progress = view.progress
        assert (progress.frames_done, progress.frames_total, progress.chunks_done) == (14, 40, 1)
        assert (progress.chunks_total, progress.running) == (4, 1)
        assert progress.eta_seconds is not None
        assert not view.final
        chunks = views.chunks(session, job)
        assert [(c.position, str(c.state), c.frames_done) for c in chunks] == [
            (0, "done", 10),
            (1, "running", 4),
            (2, "ready", 0),
            (3, "ready", 0),
        ]
        assert [a.kind for a in views.attempts(session, job)] == ["render", "render", "plan"]
        assert views.open_counts(session) == {JobState.RUNNING: 1}
        with pytest.raises(NotFoundError):
            views.job_view(session, "nothing")
    hands.finish(second)
    hands.work()
    with sessions() as session:
        view = views.job_view(session, job)
        assert view.final
        assert [d.name for d in view.deliverables] == ["review"]
        assert view.progress.eta_seconds == 0


def test_pages_newest_first(sessions: Sessions) -> None:
    hands = Hands(sessions)
    ids = [hands.submit(project=f"p{n % 2}") for n in range(5)]
    hands.command("cancel", ids[0])
    with sessions() as session:
        page = views.list_jobs(session, limit=2)
        assert [job.id for job in page.items] == [ids[4], ids[3]]
        page = views.list_jobs(session, limit=2, before=page.before)
        assert [job.id for job in page.items] == [ids[2], ids[1]]
        page = views.list_jobs(session, limit=2, before=page.before)
        assert ([job.id for job in page.items], page.before) == ([ids[0]], None)
        assert [j.id for j in views.list_jobs(session, states=[JobState.CANCELLED]).items] == [ids[0]]
        assert [j.id for j in views.list_jobs(session, project="p1").items] == [ids[3], ids[1]]


def test_events_are_read_from_where_one_was(sessions: Sessions) -> None:
    hands = Hands(sessions)
    job = hands.submit()
    hands.work()
    with sessions() as session:
        first = views.events_after(session, job, limit=3)
        rest = views.events_after(session, job, first[-1].id)
        assert len(first) == 3
        assert [e.id for e in first + rest] == sorted({e.id for e in first + rest})
        assert rest[-1].after == "completed"


def said(sessions: Sessions, job: str) -> str:
    return transact(sessions, lambda s: why.why_job(s, job))


def test_why_nothing_happens(sessions: Sessions) -> None:
    hands = Hands(sessions, "w")
    job = hands.submit(tags=["film"], vram_mb=14_000, models=["big"])
    assert said(sessions, job) == "No worker is connected."
    slot = Slot(worker_id="w", vram_mb=8_000, models=())

    def register(*tags: str) -> None:
        report = fleet.WorkerReport(id="w", name="w", slots=(slot,), tags=tags)
        transact(sessions, lambda s: fleet.register(s, report))

    register()
    assert said(sessions, job) == "No connected worker has the tags film."
    register("film")
    assert said(sessions, job).startswith("A worker that can do it is free")
    tagged = Hands(sessions, "w", tags=("film",))
    plan = tagged.must_claim()
    assert said(sessions, job).startswith("Worker w has had its plan for ")
    tagged.publish(plan, 0)
    tagged.finish(plan, chunks=1)
    assert said(sessions, job) == "It needs 14000 MB of GPU memory; the largest slot has 8000 MB."
    assert tagged.claim() is None


@pytest.mark.parametrize(
    ("table", "change", "sentence"),
    [
        (Project, {"budget_state": "stopped"}, "The budget of project default is used up."),
        (Project, {"max_running": 0}, "Project default has 0 attempts running; its cap is 0."),
        (Submitter, {"max_running": 0}, "Its submitter has 0 attempts running; the cap is 0."),
        (
            Worker,
            {"state": "asleep", "reason": "It is night."},
            "Every worker is asleep, draining or told to leave. It is night.",
        ),
    ],
)
def test_why_by_caps_and_states(sessions: Sessions, table: type, change: dict[str, object], sentence: str) -> None:
    hands = Hands(sessions, "w")
    job = hands.submit()
    transact(
        sessions,
        lambda s: fleet.register(s, fleet.WorkerReport(id="w", name="w", slots=(Slot(worker_id="w"),))),
    )
    with sessions.begin() as session:
        session.execute(update(table).values(**change))
    assert said(sessions, job) == sentence
    assert hands.claim() is None, "what is said is what keeps the claim back"


def test_why_by_state(sessions: Sessions) -> None:
    hands = Hands(sessions)
    job = hands.submit()
    waits = hands.submit(needs=[{"job_id": job}])
    assert said(sessions, waits) == f"It waits for job {job} (queued)."
    hands.plan(1)
    hands.fail(hands.must_claim(), "infrastructure", "The store is away.")
    assert said(sessions, job).startswith("It is tried again in ")
    hands.command("pause", job, reason="Lunch.")
    assert said(sessions, job) == "It is paused: Lunch."
    with pytest.raises(NotFoundError):
        said(sessions, "nothing")


def test_why_a_worker_does_nothing(sessions: Sessions) -> None:
    hands = Hands(sessions, "w")
    report = fleet.WorkerReport(id="w", name="w", slots=(Slot(worker_id="w"),))
    transact(sessions, lambda s: fleet.register(s, report))

    def ask() -> str:
        return transact(sessions, lambda s: why.why_worker(s, "w"))

    assert ask() == "No task is ready."
    hands.submit()
    assert ask() == "No ready task fits its kinds, tags, memory or models."
    hands.must_claim()
    assert ask() == "It works on 1 task."
    transact(sessions, lambda s: fleet.request_state(s, "w", fleet.RequestedState.ASLEEP, actor="op"))
    assert ask() == "It was told to be asleep; first 1 task must end."
    transact(sessions, lambda s: fleet.leave(s, "w", "Spot notice."))
    assert ask().endswith("Spot notice.")
    with sessions() as session:
        (view,) = views.workers(session)
        assert (view.state, view.busy, len(view.slots)) == ("offline", 0, 1)


def test_cost_by_the_workers_rates(sessions: Sessions) -> None:
    hands = Hands(sessions, "w")
    job = hands.submit()
    hands.work()
    with sessions() as session:
        assert views.job_view(session, job).cost is None
    with sessions.begin() as session:
        session.add(Worker(id="w", name="w", rate=7.2))
        session.execute(update(Attempt).where(Attempt.kind == "render").values(gpu_seconds=100))
    with sessions() as session:
        assert views.job_view(session, job).cost == pytest.approx(3 * 100 * 7.2 / 3600)
