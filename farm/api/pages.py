"""The plain pages: submission, a job, an attempt's log, the operators' view; and where a token is asked for."""

from __future__ import annotations

from typing import cast

from flask import Blueprint, Response, current_app, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from farm import __version__
from farm.api.attempts import find_attempt
from farm.api.guard import COOKIE, Guard
from farm.api.recipes import offered
from farm.api.schemas import JobQuery
from farm.api.services import services
from farm.media.deliverables import deliverable, names
from farm.provenance.consent import STATEMENT

bp = Blueprint("pages", __name__)

_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)


@bp.after_request
def protect(response: Response) -> Response:
    """A page runs the farm's own scripts only, is framed by nobody, and is kept by no cache."""
    response.headers["Content-Security-Policy"] = _POLICY
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Referrer-Policy"] = "same-origin"
    response.headers["Cache-Control"] = "no-store"
    return response


@bp.get("/")
def home() -> str:
    found = services()
    recent = found.ledger.jobs(JobQuery(limit=10))
    return render_template(
        "home.html",
        version=__version__,
        recipes=[recipe for recipe, refusal in offered(found) if not refusal],
        deliverables=[deliverable(name) for name in names()],
        statement=STATEMENT,
        chunk_seconds=found.settings.chunk_seconds,
        needs_grant=found.settings.consent_policy == "grant",
        jobs=recent.items,
    )


@bp.get("/jobs/<job_id>")
def job(job_id: str) -> str:
    found = services()
    view = found.ledger.job(job_id)
    return render_template("job.html", version=__version__, job=view)


@bp.get("/jobs/<job_id>/attempts/<attempt_id>")
def attempt(job_id: str, attempt_id: str) -> str:
    found = find_attempt(job_id, attempt_id)
    return render_template("attempt.html", version=__version__, job=services().ledger.job(job_id), attempt=found)


@bp.get("/operate")
def operate() -> str:
    return render_template("operate.html", version=__version__)


@bp.get("/login")
def login() -> str:
    return render_template("login.html", version=__version__, wrong=False)


@bp.post("/login")
def enter() -> ResponseReturnValue:
    """Swap the token for a cookie that scripts cannot read and other sites cannot use."""
    guard = cast(Guard, current_app.extensions["farm_guard"])
    if guard.cookie is None or not guard.accepts(request.form.get("token", "")):
        return render_template("login.html", version=__version__, wrong=True), 403
    answer = redirect(url_for("pages.home"), 303)
    answer.set_cookie(COOKIE, guard.cookie, httponly=True, samesite="Strict", secure=request.is_secure, path="/")
    return answer
