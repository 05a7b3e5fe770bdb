"""Signed download links of stores that have no server of their own: HMAC-SHA256 over key, expiry and file name.

The API serves `GET <base_url>/objects/<key>?expires=...&filename=...&signature=...` after `UrlSigner.verify`.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from urllib.parse import quote, urlencode

from farm.errors import InputError, PolicyError

ROUTE = "/objects/"


def utc_now() -> datetime:
    return datetime.now(UTC)


class UrlSigner:
    """Makes and checks links.

    Parameters
    ----------
    secret: at least 16 bytes, the same in every process of the farm.
    base_url: what comes before `/objects/`; "" makes links relative to the API's host.
    now: the clock, in UTC.
    """

    def __init__(self, secret: bytes, base_url: str = "", now: Callable[[], datetime] = utc_now) -> None:
        if len(secret) < 16:
            raise InputError(
                "The secret that signs links is too short.", where="FARM_URL_SECRET", do="Give 16 bytes or more."
            )
        self._secret = secret
        self._base = base_url.rstrip("/")
        self._now = now

    def sign(self, key: str, *, expires: timedelta, filename: str | None = None) -> str:
        until = str(int((self._now() + expires).timestamp()))
        query = {"expires": until, "signature": self._signature(key, until, filename or "")}
        if filename:
            query["filename"] = filename
        return f"{self._base}{ROUTE}{quote(key)}?{urlencode(query)}"

    def verify(self, key: str, query: Mapping[str, str]) -> str | None:
        """The file name to offer, or None; PolicyError when the link was not made by this farm or is too old."""
        until, filename = query.get("expires", ""), query.get("filename", "")
        if not hmac.compare_digest(query.get("signature", "").encode(), self._signature(key, until, filename).encode()):
            raise PolicyError("The link is not valid.", where="download", do="Ask the farm for a new one.")
        if int(until) <= self._now().timestamp():
            raise PolicyError("The link has expired.", where="download", do="Ask the farm for a new one.")
        return filename or None

    def _signature(self, key: str, until: str, filename: str) -> str:
        message = "\0".join(("GET", key, until, filename)).encode()
        return hmac.new(self._secret, message, hashlib.sha256).hexdigest()
