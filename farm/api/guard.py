"""Who may use the API.

On loopback without a token everybody on this machine may, but no web page of another site: a browser must not be made
to submit jobs (forged requests) nor to read them (a name that is re-bound to 127.0.0.1). With `FARM_API_TOKEN` set,
every request carries it as a bearer token, or a page's cookie that was given for it.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from urllib.parse import urlsplit

from flask import Flask, redirect, request, url_for
from flask.typing import ResponseReturnValue

from farm.api.problems import UnauthorisedError
from farm.errors import PolicyError
from farm.settings import Settings

COOKIE = "farm_session"
_OPEN_ENDPOINTS = frozenset(
    {"health.healthz", "health.readyz", "objects.signed", "pages.login", "pages.enter", "static"}
)
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


def is_loopback(host: str) -> bool:
    """Whether a host name or address (IPv6 with or without brackets) means this machine only."""
    name = host.strip("[]").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def check_exposure(settings: Settings) -> None:
    """PolicyError when the API would listen beyond this machine without asking for a token."""
    if settings.api_token is None and not is_loopback(settings.api_host):
        raise PolicyError(
            f"The API would be open to everybody who reaches {settings.api_host}.",
            where="FARM_API_HOST",
            do="Set FARM_API_TOKEN (or FARM_API_TOKEN_FILE), or listen on 127.0.0.1.",
        )


def cookie_value(token: str, session_secret: str) -> str:
    """What a browser holds instead of the token: worthless once either secret is changed."""
    return hmac.new(session_secret.encode(), b"page-session\0" + token.encode(), hashlib.sha256).hexdigest()


def right_token(given: str, expected: str) -> bool:
    """Compare in a time that says nothing about where they differ."""
    return hmac.compare_digest(hashlib.sha256(given.encode()).digest(), hashlib.sha256(expected.encode()).digest())


class Guard:
    """Checks each request before its view runs."""

    def __init__(self, settings: Settings) -> None:
        self._token = settings.api_token.get_secret_value() if settings.api_token else None
        secret = settings.session_secret.get_secret_value() if settings.session_secret else None
        self.cookie = cookie_value(self._token, secret) if self._token and secret else None

    @property
    def asks_for_token(self) -> bool:
        return self._token is not None

    def accepts(self, token: str) -> bool:
        return self._token is not None and right_token(token, self._token)

    def register(self, app: Flask) -> None:
        app.before_request(self._check)

    def _check(self) -> ResponseReturnValue | None:
        _refuse_foreign_pages()
        if self._token is None:
            _refuse_foreign_hosts()
            return None
        if request.endpoint in _OPEN_ENDPOINTS or self._known():
            return None
        if request.blueprint == "pages":
            return redirect(url_for("pages.login"))
        raise UnauthorisedError(
            "The request carries no valid token.",
            where="Authorization",
            do="Send `Authorization: Bearer <FARM_API_TOKEN>`, or open /login in a browser.",
        )

    def _known(self) -> bool:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self.accepts(token.strip()):
            return True
        held = request.cookies.get(COOKIE)
        return self.cookie is not None and held is not None and right_token(held, self.cookie)


def _refuse_foreign_pages() -> None:
    """A browser says where a request comes from; another site's may only follow links."""
    if request.method in _SAFE_METHODS:
        return
    origin = request.headers.get("Origin")
    foreign = origin is not None and urlsplit(origin).netloc != request.host
    if foreign or request.headers.get("Sec-Fetch-Site") in ("cross-site", "same-site"):
        raise PolicyError(
            "A page of another site may not change anything here.", where="Origin", do="Use the farm's own pages."
        )


def _refuse_foreign_hosts() -> None:
    host = request.host.rsplit(":", 1)[0] if not request.host.endswith("]") else request.host
    if not is_loopback(host):
        raise PolicyError(
            f"This farm answers on this machine only, not as {host!r}.",
            where="Host",
            do="Use 127.0.0.1, or set FARM_API_TOKEN.",
        )
