from __future__ import annotations

from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qsl, urlsplit

import pytest

from farm.errors import InputError, PolicyError
from farm.store.signing import UrlSigner

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
SECRET = b"0123456789abcdef"


def _signer(now: datetime = NOW, secret: bytes = SECRET) -> UrlSigner:
    return UrlSigner(secret, "http://farm.test:8460/", lambda: now)


def _query(url: str) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(url).query))


def test_a_link_opens_its_object_until_it_expires() -> None:
    url = _signer().sign("jobs/1/plate", expires=timedelta(seconds=60), filename="Zürich & co.mp4")
    assert url.startswith("http://farm.test:8460/objects/jobs/1/plate?")
    assert _signer(NOW + timedelta(seconds=59)).verify("jobs/1/plate", _query(url)) == "Zürich & co.mp4"
    with pytest.raises(PolicyError, match="expired"):
        _signer(NOW + timedelta(seconds=60)).verify("jobs/1/plate", _query(url))


def test_a_link_without_a_name() -> None:
    url = _signer().sign("a", expires=timedelta(seconds=60))
    assert _signer().verify("a", _query(url)) is None


@pytest.mark.parametrize(
    "change",
    [{"expires": "9999999999"}, {"filename": "other"}, {"signature": "0" * 64}, {"signature": ""}, {"signature": "é"}],
)
def test_a_changed_link_is_refused(change: dict[str, str]) -> None:
    query = _query(_signer().sign("a", expires=timedelta(seconds=60), filename="n")) | change
    with pytest.raises(PolicyError, match="not valid"):
        _signer().verify("a", query)


def test_a_link_opens_no_other_object_and_no_other_farm() -> None:
    query = _query(_signer().sign("a", expires=timedelta(seconds=60)))
    with pytest.raises(PolicyError):
        _signer().verify("b", query)
    with pytest.raises(PolicyError):
        _signer(secret=b"another secret of a farm").verify("a", query)
    with pytest.raises(PolicyError):
        _signer().verify("a", {})


def test_a_short_secret_is_refused() -> None:
    with pytest.raises(InputError):
        UrlSigner(b"short")
