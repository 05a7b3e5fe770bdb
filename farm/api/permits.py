"""Permits of the farm's jobs: issued with the job, renewed by the reconciler while the job is open."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from farm.provenance.consent import Consent
from farm.provenance.permit import LIFETIME, issue, load_or_make_key, sign
from farm.settings import Settings

KEY_FILE = "permit.pem"


def utc_now() -> datetime:
    return datetime.now(UTC)


def key_path(settings: Settings) -> Path:
    """Where the farm's signing key lies."""
    return settings.permit_key_path or settings.home / "secrets" / KEY_FILE


class Permits:
    """Signs permits with the farm's key. What is kept with a job is `{"token": ..., "expires": ...}`."""

    def __init__(self, key: Ed25519PrivateKey, now: Callable[[], datetime] = utc_now) -> None:
        self._key = key
        self._now = now

    @classmethod
    def of(cls, settings: Settings) -> Permits:
        return cls(load_or_make_key(key_path(settings)))

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
            now=self._now(),
            lifetime=lifetime,
        )
        return {"token": sign(permit, self._key), "expires": permit.expires}
