"""Deliverables and signed objects: ranges, resumed downloads, nothing whole in memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta

from apiflask import APIBlueprint
from flask import Blueprint, Response, redirect, request
from flask.typing import ResponseReturnValue
from werkzeug.datastructures import ContentRange
from werkzeug.http import dump_options_header

from farm.api.openapi import Answers, problems
from farm.api.services import services
from farm.errors import NotFoundError, PolicyError
from farm.store import keys
from farm.store.base import Store

bp = APIBlueprint("downloads", __name__, url_prefix="/api/v1/jobs", tag="Jobs")
objects = Blueprint("objects", __name__)

BLOCK = 1 << 20
_SAFE_NAME = re.compile(r"[^A-Za-z0-9._-]")

_PICTURE: Answers = {
    200: {"description": "The newest picture", "content": {"image/jpeg": {}}},
    204: {"description": "No picture at the moment"},
}
_FILE_ANSWERS: Answers = {
    200: {"description": "The file", "content": {"application/octet-stream": {}}},
    206: {"description": "A part of the file", "content": {"application/octet-stream": {}}},
    302: {"description": "A signed link of the store"},
}


@bp.get("/<job_id>/deliverables/<name>")
@bp.doc(summary="Download a deliverable", responses={**_FILE_ANSWERS, **problems(404, 416, 503)})
def download(job_id: str, name: str) -> ResponseReturnValue:
    found = services()
    stored = found.ledger.deliverable(job_id, name)
    if found.signer is None:
        expires = timedelta(seconds=found.settings.signed_url_seconds)
        return redirect(found.store.signed_url(stored.key, expires=expires, filename=stored.filename))
    return send_object(found.store, stored.key, stored.filename)


@bp.get("/<job_id>/chunks/<int:position>/preview")
@bp.doc(
    summary="What the render of a chunk looks like right now",
    description="Plate and result side by side, about once a second; 204 while none is rendered.",
    responses=_PICTURE | problems(404, 503),
)
def preview(job_id: str, position: int) -> Response:
    found = services()
    found.ledger.job(job_id)
    try:
        picture = found.store.get_bytes(keys.preview(job_id, position))
    except NotFoundError:
        # Most chunks have none most of the time: a page that asks each second must not fill its console with errors.
        return Response(status=204, headers={"Cache-Control": "no-store"})
    return Response(picture, content_type="image/jpeg", headers={"Cache-Control": "no-store"})


@objects.get("/objects/<path:key>")
def signed(key: str) -> Response:
    """An object, for whoever holds a link that this farm signed."""
    found = services()
    if found.signer is None:
        raise NotFoundError("This farm's links lead to its store.", where="objects", do="Ask for the deliverable.")
    try:
        filename = found.signer.verify(key, request.args)
    except ValueError as error:
        raise PolicyError("The link is not valid.", where="download", do="Ask the farm for a new one.") from error
    return send_object(found.store, key, filename)


def send_object(store: Store, key: str, filename: str | None) -> Response:
    """Stream an object, or the one range of it that was asked for (RFC 9110 §14)."""
    info = store.head(key)
    if info is None:
        raise NotFoundError("The file is not in the store any more.", where="download", do="Requeue the job.")
    etag = f'"{info.sha256}"'
    headers = {
        "Accept-Ranges": "bytes",
        "ETag": etag,
        "Content-Disposition": dump_options_header("attachment", {"filename": _SAFE_NAME.sub("_", filename or "file")}),
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "private, no-cache",
    }
    first, last = 0, info.size
    status = 200
    condition = request.headers.get("If-Range")
    asked = request.range
    # Several ranges at once may be ignored, and are: the whole file answers them.
    if asked is not None and asked.units == "bytes" and len(asked.ranges) == 1 and condition in (None, etag):
        wanted = asked.range_for_length(info.size)
        if wanted is None:
            headers["Content-Range"] = f"bytes */{info.size}"
            return Response(status=416, headers=headers)
        first, last = wanted
        status = 206
        headers["Content-Range"] = ContentRange("bytes", first, last, info.size).to_header()
    headers["Content-Length"] = str(last - first)
    body = () if request.method == "HEAD" or first == last else _blocks(store, key, first, last)
    return Response(body, status, headers, content_type="application/octet-stream", direct_passthrough=True)


def _blocks(store: Store, key: str, first: int, last: int) -> Iterator[bytes]:
    with closing(store.open(key, start=first, end=last)) as source:
        while block := source.read(BLOCK):
            yield block
