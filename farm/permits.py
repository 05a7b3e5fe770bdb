"""Permits of the farm's jobs: issued with the job, renewed by the reconciler while the job is open."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import select
from sqlalchemy.orm import Session

from farm.db.engine import Sessions, database_now, transact
from farm.db.tables import Job
from farm.jobs.request import JobRequest
from farm.jobs.states import FINAL_JOB_STATES
from farm.provenance.consent import Consent
from farm.provenance.permit import LIFETIME, issue, load_or_make_key, sign
from farm.recipe import Recipe
from farm.settings import Settings

KEY_FILE = "permit.pem"
_BATCH = 100


def key_path(settings: Settings) -> Path:
    """Where the farm's signing key lies."""
    return settings.permit_key_path or settings.home / "secrets" / KEY_FILE


class Permits:
    """Signs permits with the farm's key. What is kept with a job is `{"token": ..., "expires": ...}`.

    `now` is the database's clock: permits last for minutes, and no two machines have to agree on the time.
    """

    def __init__(self, key: Ed25519PrivateKey, now: Callable[[], datetime]) -> None:
        self._key = key
        self.now = now

    @classmethod
    def of(cls, settings: Settings, sessions: Sessions) -> Permits:
        return cls(load_or_make_key(key_path(settings)), lambda: database_now(sessions))

    def issue(
        self,
        *,
        job: str,
        plate_sha256: str,
        identities: tuple[str, ...],
        recipe_digest: str,
        consent: Consent,
        lifetime: timedelta = LIFETIME,
    ) -> dict[str, Any]:
        permit = issue(
            job=job,
            plate_sha256=plate_sha256,
            identities=identities,
            recipe_digest=recipe_digest,
            consent_level=consent.level,
            grant_sha256=consent.grant_sha256,
            clean_master=consent.clean_master,
            now=self.now(),
            lifetime=lifetime,
        )
        return {"token": sign(permit, self._key), "expires": permit.expires}

    def for_job(self, job: Job, recipe: Recipe) -> dict[str, Any]:
        """A permit for a job's own plate and identities, with this recipe."""
        request = JobRequest.model_validate(job.request)
        return self.issue(
            job=job.id,
            plate_sha256=request.plate.sha256 or "",
            identities=tuple(picture.sha256 for identity in request.identities for picture in identity.pictures),
            recipe_digest=recipe.digest(),
            consent=Consent.model_validate(job.consent or {}),
        )


class PermitRenewer:
    """Reissues the permits of open jobs before they run out: a job may wait or render for longer than a permit lasts.

    A reconciler service: any number may run at once.
    """

    name = "permits"

    def __init__(self, sessions: Sessions, permits: Permits, *, before: timedelta = LIFETIME / 2) -> None:
        self._sessions = sessions
        self._permits = permits
        self._before = before

    def run_once(self) -> int:
        until = (self._permits.now() + self._before).isoformat()
        return transact(self._sessions, lambda session: self._renew(session, until))

    def _renew(self, session: Session, until: str) -> int:
        due = session.scalars(
            select(Job)
            .where(Job.state.not_in(FINAL_JOB_STATES), Job.permit["expires"].astext < until)
            .order_by(Job.seq)
            .limit(_BATCH)
            .with_for_update(skip_locked=True)
        ).all()
        for job in due:
            job.permit = self._permits.for_job(job, JobRequest.model_validate(job.request).recipe)
        return len(due)
