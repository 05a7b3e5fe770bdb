"""The plain pages: submission, a job and its people, an attempt's log, the operators' view, and the login."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, cast

from flask import Blueprint, Response, current_app, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from farm import __version__
from farm.api import casting
from farm.api.attempts import find_attempt
from farm.api.guard import COOKIE, Guard
from farm.api.operating import checked
from farm.api.recipes import offered
from farm.api.schemas import JobQuery, MergeIn, SplitIn
from farm.api.services import services
from farm.errors import ConflictError, FarmError, InputError
from farm.faces.mapping import MappingMode, MappingRequest
from farm.media.deliverables import deliverable, names
from farm.media.loudness import LOUDNESS
from farm.provenance.consent import STATEMENT
from farm.words import counted

bp = Blueprint("pages", __name__)
bp.add_app_template_filter(counted)

_BECOMES = "becomes."
"""Before a cast member's id: the field that says who they become."""

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
        norms=LOUDNESS.values(),
        statement=STATEMENT,
        chunk_seconds=found.settings.chunk_seconds,
        max_retries=found.settings.max_retries,
        needs_grant=found.settings.consent_policy == "grant",
        jobs=recent.items,
    )


@bp.get("/jobs/<job_id>")
def job(job_id: str) -> str:
    found = services()
    view = found.ledger.job(job_id)
    return render_template("job.html", version=__version__, job=view, **_people(job_id))


@bp.get("/jobs/<job_id>/people")
def people(job_id: str) -> str:
    """The part of a job's page that shows its people, by itself: empty while they are not known."""
    return render_template("people.html", job=services().ledger.job(job_id), **_people(job_id))


@bp.post("/jobs/<job_id>/people/merge")
def merge(job_id: str) -> ResponseReturnValue:
    form = request.form
    casting.merge(job_id, checked(MergeIn, {"into": form.get("into"), "others": form.getlist("other")}))
    return _back_to_people(job_id)


@bp.post("/jobs/<job_id>/people/split")
def split(job_id: str) -> ResponseReturnValue:
    form = request.form
    casting.split(job_id, checked(SplitIn, {"member": form.get("member"), "appearances": form.getlist("appearance")}))
    return _back_to_people(job_id)


@bp.post("/jobs/<job_id>/people/mapping")
def decide(job_id: str) -> ResponseReturnValue:
    """Either everybody becomes one identity, or each person the one chosen beside them, if any."""
    form = request.form
    everyone = form.get("everyone")
    chosen = {name.removeprefix(_BECOMES): label for name, label in form.items() if name.startswith(_BECOMES) and label}
    if not everyone and not chosen:
        raise InputError("Nobody was chosen.", where="people", do="Say who becomes whom, or cancel the job.")
    asked = (
        {"mode": MappingMode.ALL, "identity": everyone}
        if everyone
        else {"mode": MappingMode.CAST, "assignments": chosen}
    )
    casting.decide(job_id, checked(MappingRequest, asked))
    return _back_to_people(job_id)


def _people(job_id: str) -> dict[str, Any]:
    """What `people.html` shows: the cast, and what became of each person so far; nothing where it is not known."""
    try:
        found = casting.people_of(job_id)
    except ConflictError:
        return {"people": None}
    accounts = {}
    if not found.editable:
        with suppress(FarmError):  # an account that cannot be made now is left out, the people are shown
            accounts = {person.person: person for person in casting.account_of(job_id).people}
    return {"people": found, "accounts": accounts, "becomes": _BECOMES}


def _back_to_people(job_id: str) -> ResponseReturnValue:
    return redirect(url_for("pages.job", job_id=job_id, _anchor="people"), 303)


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
