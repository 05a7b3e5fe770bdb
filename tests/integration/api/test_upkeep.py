"""Permits are renewed and orphans removed by the reconciler's services."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from farm.db.engine import Sessions
from farm.db.tables import Job
from farm.orphans import OrphanSweeper
from farm.permits import PermitRenewer, Permits
from farm.provenance.consent import Consent
from farm.provenance.permit import LIFETIME, bind, check, public_key
from farm.store.memory import MemoryStore
from tests.integration.jobs.hands import SHA, Hands

BEGIN = datetime(2026, 5, 1, tzinfo=UTC)


class Clock:
    def __init__(self) -> None:
        self.now = BEGIN

    def __call__(self) -> datetime:
        return self.now


def permit_of(sessions: Sessions, job_id: str) -> dict[str, Any]:
    with sessions() as session:
        return session.get_one(Job, job_id).permit or {}


def test_permits_of_open_jobs_are_renewed_before_they_run_out(sessions: Sessions) -> None:
    clock, key = Clock(), Ed25519PrivateKey.generate()
    permits = Permits(key, clock)
    hands = Hands(sessions)
    first = permits.issue(job="x", plate_sha256=SHA, identities=(SHA,), recipe_digest="", consent=Consent())
    waiting = hands.submit("swap", permit=first)
    ended = hands.submit("swap", permit=first)
    hands.command("cancel", ended)
    renewer = PermitRenewer(sessions, permits)
    assert renewer.run_once() == 0
    clock.now = BEGIN + LIFETIME - timedelta(minutes=5)
    assert renewer.run_once() == 1
    assert renewer.run_once() == 0
    assert permit_of(sessions, ended) == first
    clock.now = BEGIN + LIFETIME + timedelta(minutes=1)
    renewed = check(permit_of(sessions, waiting)["token"], public_key(key), now=clock.now)
    with sessions() as session:
        from farm.jobs import JobRequest

        recipe = JobRequest.model_validate(session.get_one(Job, waiting).request).recipe
    bind(renewed, job=waiting, plate_sha256=SHA, identities=(SHA,), recipe_digest=recipe.digest())


def test_objects_of_no_job_are_removed_once_they_are_old(sessions: Sessions, tmp_path: Path) -> None:
    clock = Clock()
    store = MemoryStore(now=clock)
    job_id = Hands(sessions).submit()
    for owner in (job_id, "01ORPHAN"):
        store.put_bytes(f"jobs/{owner}/plate", b"x")
    ticks = [0.0]
    sweeper = OrphanSweeper(sessions, store, age=timedelta(hours=1), every=60, now=clock, clock=lambda: ticks[0])
    assert sweeper.run_once() == 0
    clock.now += timedelta(hours=2)
    assert sweeper.run_once() == 0, "the next pass is not due yet"
    store.put_bytes("jobs/01FRESH/plate", b"x")
    ticks[0] += 61
    assert sweeper.run_once() == 1
    assert [info.key for info in store.list("")] == ["jobs/01FRESH/plate", f"jobs/{job_id}/plate"]
