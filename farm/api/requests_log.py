"""One log line per request, with an id that the client also gets; never a name, a token or a query."""

from __future__ import annotations

import re
import time
import uuid

import structlog
from flask import Flask, Response, g, request

HEADER = "X-Request-ID"
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")

log = structlog.get_logger(__name__)


def register(app: Flask) -> None:
    app.before_request(_begin)
    app.after_request(_end)
    app.teardown_request(_forget)


def _begin() -> None:
    given = request.headers.get(HEADER, "")
    g.request_id = given if _ID.fullmatch(given) else uuid.uuid4().hex
    g.request_began = time.monotonic()
    structlog.contextvars.bind_contextvars(request=g.request_id)


def _end(response: Response) -> Response:
    response.headers[HEADER] = g.request_id
    log.info(
        "request",
        method=request.method,
        route=request.url_rule.rule if request.url_rule else None,
        status=response.status_code,
        milliseconds=round((time.monotonic() - g.request_began) * 1000, 1),
    )
    return response


def _forget(_error: BaseException | None) -> None:
    structlog.contextvars.unbind_contextvars("request")
