"""Problem documents (RFC 9457): every error that a client of the API can meet, in one form.

`type` is a stable urn that programs may compare, `detail` says what, `where` and `do` say where and what to do about
it, `request_id` finds the lines of the log. Validation errors list each field under `errors`.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import structlog
from apiflask.exceptions import HTTPError
from flask import Flask, Response, g, json, render_template, request, url_for
from flask.typing import ResponseReturnValue
from pydantic import BaseModel, ConfigDict
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from werkzeug.exceptions import HTTPException

from farm import __version__
from farm.errors import (
    ConflictError,
    DiskFullError,
    FarmError,
    InfrastructureError,
    InputError,
    InterruptedTaskError,
    NotFoundError,
    OutOfMemoryError,
    PolicyError,
    RecipeError,
    StaleLeaseError,
)

MEDIA_TYPE = "application/problem+json"
RETRY_SECONDS = 5

log = structlog.get_logger(__name__)


class TooLargeError(InputError):
    """More bytes than this farm takes."""


class BusyError(InfrastructureError):
    """All of a bounded resource is in use just now."""


class UnauthorisedError(PolicyError):
    """The request carries no token, or a wrong one."""


class FieldProblem(BaseModel):
    """One wrong field: a JSON pointer into the body, or the name of the query field, and why."""

    field: str
    message: str


class Problem(BaseModel):
    """An RFC 9457 problem document."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str
    where: str = ""
    do: str = ""
    request_id: str = ""
    errors: list[FieldProblem] = []


# The first class that fits counts: children stand before their parents.
_STATUS: tuple[tuple[type[FarmError], str, int], ...] = (
    (TooLargeError, "too-large", 413),
    (DiskFullError, "disk-full", 507),
    (UnauthorisedError, "unauthorised", 401),
    (NotFoundError, "not-found", 404),
    (InputError, "input", 422),
    (RecipeError, "recipe", 422),
    (PolicyError, "policy", 403),
    (ConflictError, "conflict", 409),
    (StaleLeaseError, "conflict", 409),
    (OutOfMemoryError, "busy", 503),
    (InterruptedTaskError, "busy", 503),
    (InfrastructureError, "infrastructure", 503),
)


def status_of(error: FarmError) -> tuple[str, int]:
    """The short name and HTTP status of a farm error."""
    for kind, name, status in _STATUS:
        if isinstance(error, kind):
            return name, status
    return "internal", 500


def problem_of(error: FarmError) -> Problem:
    name, status = status_of(error)
    return _problem(name, status, error.what, where=error.where, do=error.do)


def _problem(name: str, status: int, detail: str, **more: Any) -> Problem:
    return Problem(
        type=f"urn:facefarm:problem:{name}",
        title=HTTPStatus(status).phrase,
        status=status,
        detail=detail,
        request_id=g.get("request_id", ""),
        **more,
    )


def response_of(problem: Problem, headers: dict[str, str] | None = None) -> Response:
    """The document; a page where a page was asked for."""
    if request.blueprint == "pages":
        page = render_template("problem.html", version=__version__, problem=problem, back=_back())
        response = Response(page, problem.status)
    else:
        body = problem.model_dump(mode="json", exclude_defaults=True) | {"status": problem.status}
        response = Response(json.dumps(body), status=problem.status, content_type=MEDIA_TYPE)
    response.headers.update(headers or {})
    response.headers["Cache-Control"] = "no-store"
    if problem.status == HTTPStatus.SERVICE_UNAVAILABLE:
        response.headers.setdefault("Retry-After", str(RETRY_SECONDS))
    if problem.status == HTTPStatus.UNAUTHORIZED:
        response.headers["WWW-Authenticate"] = 'Bearer realm="facefarm"'
    return response


def _back() -> str | None:
    """The job's page, where one of its forms was refused."""
    job_id = (request.view_args or {}).get("job_id")
    return url_for("pages.job", job_id=job_id) if job_id and request.method == "POST" else None


def register(app: Flask) -> None:
    """Turn every error of the application into a problem document."""
    app.register_error_handler(FarmError, _on_farm_error)
    app.register_error_handler(DBAPIError, _on_database_error)
    app.register_error_handler(PoolTimeoutError, _on_database_error)
    app.register_error_handler(HTTPError, _on_validation_error)
    app.register_error_handler(HTTPException, _on_http_exception)
    app.register_error_handler(Exception, _on_foreign_error)


def _on_farm_error(error: FarmError) -> Response:
    problem = problem_of(error)
    if problem.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        log.warning("request failed", status=problem.status, error=str(error))
    return response_of(problem)


def _on_database_error(error: Exception) -> Response:
    log.warning("database unavailable", error=type(error).__name__)
    return response_of(
        _problem(
            "infrastructure",
            503,
            "The farm's database did not answer.",
            where="PostgreSQL",
            do="Try again in a few seconds; `farm doctor` on the server says what is wrong.",
        )
    )


def _on_validation_error(error: HTTPError) -> Response:
    fields = [
        FieldProblem(field="/".join((location, *name.split("."))), message=message)
        for location, names in dict(error.detail or {}).items()
        for name, messages in dict(names).items()
        for message in messages
    ]
    return response_of(
        _problem(
            "input",
            error.status_code,
            error.message or "The request is not valid.",
            do="See /api/v1/openapi.json for what is expected.",
            errors=fields,
        ),
        {key: str(value) for key, value in dict(error.headers).items()},
    )


def _on_http_exception(error: HTTPException) -> ResponseReturnValue:
    status = error.code or 500
    if status < HTTPStatus.BAD_REQUEST:
        return error  # a redirect to the address with or without a slash
    headers = {key: value for key, value in error.get_headers() if key.lower() in ("allow", "retry-after")}
    details = {
        404: f"There is nothing at {request.path}.",
        405: f"{request.method} is not possible here.",
        413: "The request has more bytes, or more parts, than this farm takes.",
    }
    name = HTTPStatus(status).phrase.lower().replace(" ", "-")
    detail = details.get(status) or error.description or error.name
    return response_of(_problem(name, status, detail, do=_advice(status)), headers)


def _advice(status: int) -> str:
    return "See /api/v1/openapi.json for what there is." if status in (404, 405, 415) else ""


def _on_foreign_error(error: Exception) -> Response:
    log.exception("request broke", error=type(error).__name__)
    return response_of(
        _problem(
            "internal",
            500,
            "The farm made a mistake.",
            do="Report it with the request id; the log of the API has the lines.",
        )
    )
