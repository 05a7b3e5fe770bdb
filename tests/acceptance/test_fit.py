"""Real workers with cards of two sizes: chunks go where their recipe fits, and nowhere else while that one lives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from farm.api.schemas import JobOut
from farm.client import Client
from farm.db.engine import Sessions, make_engine, make_sessions, transact
from farm.db.tables import Job
from farm.jobs import JobRequest
from farm.jobs.fit import Measured, learn
from farm.jobs.views import attempts
from farm.local.farm import LocalFarm
from farm.sample import Sample, generate
from farm.settings import load_settings
from tests.acceptance.conftest import Farm, own_copy

SMALL, BIG = "small-gpu0", "big-gpu0"


@pytest.fixture
def two(tmp_path: Path) -> Iterator[tuple[Farm, Sessions]]:
    home = tmp_path / "home"
    settings = load_settings(
        home=home, url=None, lease_seconds=8, heartbeat_seconds=1, reconcile_seconds=0.5, drain_seconds=1, threads=1
    )
    with LocalFarm(home, settings, services="tests.acceptance.two_cards:two_cards") as local:
        assert local.state is not None
        client, engine = Client(local.state.url), make_engine(local.state.database_url, application="a-test")
        yield Farm(local, client), make_sessions(engine)
        engine.dispose()
        client.close()


def renderers(sessions: Sessions, job: JobOut) -> list[tuple[str, str]]:
    """By whom each chunk was rendered, and what spoke against its card."""
    with sessions() as session:
        rows = [row for row in attempts(session, job.id) if row.kind == "render"]
    return [(row.worker_id, row.environment.get("back_end_why", "")) for row in rows]


def test_chunks_go_to_the_card_in_which_their_recipe_fits_and_wait_for_none_that_has_gone(
    two: tuple[Farm, Sessions], tmp_path: Path
) -> None:
    farm, sessions = two
    clip: Sample = generate(tmp_path / "clip", seconds=1, size=(320, 180), people=1)

    def rendered(name: str) -> list[tuple[str, str]]:
        folder = tmp_path / name
        folder.mkdir()
        job = farm.finished(farm.submit(own_copy(clip.plate, folder), chunk_seconds=0.5))
        return renderers(sessions, job)

    assert len(rendered("unmeasured")) == 2
    with sessions() as session:
        recipe = JobRequest.model_validate(session.scalars(select(Job.request)).one()).recipe.digest()
    line = Measured(recipe=recipe, card="NVIDIA Test/24576", needs_mb=9000, seen_mb=20_000, batch=32)
    transact(sessions, lambda session: learn(session, [line]))
    made = rendered("measured")
    assert {worker for worker, _ in made} == {BIG}
    farm.client.operate("POST", f"/workers/{BIG}/state", {"state": "offline", "now": False, "reason": "a test"})
    left = rendered("alone")
    assert {worker for worker, _ in left} == {SMALL}
    assert len(made) == len(left) == 2
    assert all(why for _, why in left)
