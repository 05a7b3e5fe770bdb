"""/api/v1/jobs/<job>/attempts: every try, and its log."""

from __future__ import annotations

from contextlib import closing

from apiflask import APIBlueprint
from flask import request

from farm.api.openapi import problems
from farm.api.schemas import AttemptList, AttemptOut, AttemptQuery, LogPart
from farm.api.services import services
from farm.errors import InputError, NotFoundError
from farm.store import keys

bp = APIBlueprint("attempts", __name__, url_prefix="/api/v1/jobs", tag="Jobs")

MOST_BYTES = 256 * 1024


@bp.get("/<job_id>/attempts")
@bp.input(AttemptQuery, location="query")
@bp.output(AttemptList)
@bp.doc(summary="The attempts of a job, newest first", responses=problems(404, 422, 503))
def list_attempts(job_id: str, query_data: AttemptQuery) -> AttemptList:
    return AttemptList(items=services().ledger.attempts(job_id, limit=query_data.limit))


def find_attempt(job_id: str, attempt_id: str) -> AttemptOut:
    """NotFoundError when the job has no such attempt."""
    for attempt in services().ledger.attempts(job_id, limit=1, attempt_id=attempt_id):
        return attempt
    raise NotFoundError("There is no such attempt.", where=f"job {job_id}", do="List the job's attempts.")


@bp.get("/<job_id>/attempts/<attempt_id>/log")
@bp.output(LogPart)
@bp.doc(
    summary="The log of an attempt, from an offset on",
    description="`?offset=` is the `next` of the part before. While the attempt runs, ask again for what has come; "
    "`ended` says that nothing more will.",
    responses=problems(404, 422, 503),
)
def read_log(job_id: str, attempt_id: str) -> LogPart:
    given = request.args.get("offset", "0")
    if not given.isdigit() or len(given) > 12:
        raise InputError("It is not an offset.", where="offset", do="Give the `next` of the part before.")
    attempt, offset = find_attempt(job_id, attempt_id), int(given)
    try:
        with closing(
            services().store.open(keys.attempt_log(job_id, attempt.task_id, attempt_id), start=offset)
        ) as found:
            data = found.read(MOST_BYTES)
    except NotFoundError:
        data = b""
    # a character that the limit, or a writer at work, has cut in two comes with the next part
    text = data.decode(errors="ignore") if len(data) > 3 else data.decode(errors="replace")
    size = len(text.encode())
    return LogPart(text=text, next=offset + size, ended=attempt.state != "running" and size < MOST_BYTES - 3)
