import base64
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from farm.errors import PolicyError
from farm.provenance.permit import Permit, bind, check, issue, load_or_make_key, public_key, sign

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))


def permit() -> Permit:
    return issue(
        job="j1",
        plate_sha256="aa",
        identities=("cc", "bb"),
        recipe_digest="dd",
        consent_level="A0",
        grant_sha256=None,
        clean_master=False,
        now=NOW,
    )


def test_a_signed_permit_comes_back_whole() -> None:
    assert check(sign(permit(), KEY), public_key(KEY), now=NOW) == permit()


def test_a_permit_ends() -> None:
    with pytest.raises(PolicyError, match="ran out"):
        check(sign(permit(), KEY), public_key(KEY), now=NOW + timedelta(minutes=15))


def test_a_changed_permit_is_refused() -> None:
    body, signature = sign(permit(), KEY).split(".")
    forged = base64.urlsafe_b64encode(base64.urlsafe_b64decode(body).replace(b'"j1"', b'"j2"')).decode()
    with pytest.raises(PolicyError, match="not signed by this farm"):
        check(f"{forged}.{signature}", public_key(KEY), now=NOW)


def test_another_farms_permit_is_refused() -> None:
    other = Ed25519PrivateKey.generate()
    with pytest.raises(PolicyError, match="not signed by this farm"):
        check(sign(permit(), other), public_key(KEY), now=NOW)


@pytest.mark.parametrize("token", ["", "a", "a.b", "a.b.c", "é.é"])
def test_damaged_tokens_are_refused(token: str) -> None:
    with pytest.raises(PolicyError):
        check(token, public_key(KEY), now=NOW)


def test_a_permit_is_for_its_own_work_only() -> None:
    bind(permit(), job="j1", plate_sha256="aa", identities=("bb", "cc"), recipe_digest="dd")
    with pytest.raises(PolicyError, match="another plate and recipe"):
        bind(permit(), job="j1", plate_sha256="ab", identities=("bb", "cc"), recipe_digest="de")


def test_the_key_is_made_once_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "permit.pem"
    first = public_key(load_or_make_key(path))
    assert public_key(load_or_make_key(path)) == first
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [p.name for p in path.parent.iterdir()] == ["permit.pem"]
