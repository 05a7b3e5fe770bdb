"""The signed, short-lived leave to render one job: made by the control plane, checked by the worker.

Canonical JSON (RFC 8785; the payload has only strings, integers and null, for which sorted keys without blanks is that
form) → Ed25519 (RFC 8032).
"""

from __future__ import annotations

import base64
import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from pydantic import BaseModel, ConfigDict

from farm.errors import InputError, PolicyError

LIFETIME = timedelta(minutes=15)


class Permit(BaseModel):
    """What a job may render: these inputs, this recipe, until then. Times are RFC 3339 in UTC."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    job: str
    plate_sha256: str
    identities: tuple[str, ...]
    recipe_digest: str
    consent_level: str
    grant_sha256: str | None
    clean_master: bool
    issued: str
    expires: str

    def canonical(self) -> bytes:
        return json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":")).encode()


def load_or_make_key(path: Path) -> Ed25519PrivateKey:
    """The farm's signing key, made on first use as a file that only its owner reads."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        key = Ed25519PrivateKey.generate()
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fresh = path.with_suffix(f".{os.getpid()}.new")
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            out.write(pem)
        try:
            os.link(fresh, path)  # the first of two processes wins; both then read the same key
        except FileExistsError:
            pass
        finally:
            fresh.unlink()
        data = path.read_bytes()
    loaded = serialization.load_pem_private_key(data, password=None)
    if not isinstance(loaded, Ed25519PrivateKey):
        raise InputError("The permit key is not an Ed25519 key.", where=str(path), do="Remove it to have one made.")
    return loaded


def public_key(key: Ed25519PrivateKey) -> str:
    """Base64 of the 32 raw bytes that workers are given."""
    raw = key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    return base64.b64encode(raw).decode()


def sign(permit: Permit, key: Ed25519PrivateKey) -> str:
    """`payload.signature`, both base64url."""
    body = permit.canonical()
    return f"{_encode(body)}.{_encode(key.sign(body))}"


def check(token: str, public: str, *, now: datetime) -> Permit:
    """The permit inside `token`; PolicyError when it is forged, damaged or out of date."""
    try:
        body, signature = (base64.urlsafe_b64decode(part) for part in token.split("."))
        Ed25519PublicKey.from_public_bytes(base64.b64decode(public)).verify(signature, body)
        permit = Permit.model_validate_json(body)
    except (ValueError, InvalidSignature) as error:
        raise PolicyError(
            "The job's permit was not signed by this farm.", where="permit", do="Submit the job again through the farm."
        ) from error
    if now >= datetime.fromisoformat(permit.expires):
        raise PolicyError(
            f"The job's permit ran out at {permit.expires}.",
            where="permit",
            do="Start the reconciler, which renews permits while consent stands.",
        )
    return permit


def bind(permit: Permit, *, job: str, plate_sha256: str, identities: tuple[str, ...], recipe_digest: str) -> None:
    """PolicyError unless the permit is for exactly this work."""
    asked = {"job": job, "plate": plate_sha256, "identities": tuple(sorted(identities)), "recipe": recipe_digest}
    held = {
        "job": permit.job,
        "plate": permit.plate_sha256,
        "identities": permit.identities,
        "recipe": permit.recipe_digest,
    }
    wrong = [name for name in asked if asked[name] != held[name]]
    if wrong:
        raise PolicyError(
            f"The permit is for another {' and '.join(wrong)}.", where="permit", do="Submit the job again."
        )


def issue(
    *,
    job: str,
    plate_sha256: str,
    identities: tuple[str, ...],
    recipe_digest: str,
    consent_level: str,
    grant_sha256: str | None,
    clean_master: bool,
    now: datetime,
    lifetime: timedelta = LIFETIME,
) -> Permit:
    """A permit from now on; `identities` are the sha256 of the identity pictures."""
    now = now.astimezone(UTC).replace(microsecond=0)
    return Permit(
        job=job,
        plate_sha256=plate_sha256,
        identities=tuple(sorted(identities)),
        recipe_digest=recipe_digest,
        consent_level=consent_level,
        grant_sha256=grant_sha256,
        clean_master=clean_master,
        issued=now.isoformat(),
        expires=(now + lifetime).isoformat(),
    )


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode()
