"""/api/v1/jobs: submit, list, look, command, follow."""

from __future__ import annotations

import re
from typing import TypeVar, cast

from apiflask import APIBlueprint
from flask import Response, request, url_for
from pydantic import ValidationError
from werkzeug.datastructures import FileStorage

from farm.api.casting import decide
from farm.api.intake import FarmRequest, Intake, Received
from farm.api.live import BATCH, Closing, stream
from farm.api.openapi import Answers, problems
from farm.api.operating import body
from farm.api.schemas import (
    DEFAULT_LABEL,
    LABEL,
    ChunkList,
    CommandIn,
    EventOut,
    JobIn,
    JobOut,
    JobPage,
    JobQuery,
)
from farm.api.services import Services, services
from farm.api.sources import fetch_parcel
from farm.api.submission import Parcel, Submission
from farm.errors import InputError
from farm.faces.mapping import MappingRequest
from farm.invalid import in_words

bp = APIBlueprint("jobs", __name__, url_prefix="/api/v1/jobs", tag="Jobs")

T = TypeVar("T", JobIn, CommandIn)

MAX_KEY = 200
COMMANDS = {
    "cancel": "Stop a job for good",
    "pause": "Hold a job; what is rendered stays",
    "resume": "Let a paused job go on",
}


@bp.post("")
@bp.output(JobOut, status_code=201)
@bp.doc(
    summary="Submit a job",
    description="Either multipart: `plate`, one or more `identity` (or `identity.<label>`) pictures or clips and a "
    "JSON part `options`; or JSON with URIs of the farm's store. With an Idempotency-Key the same request makes one "
    "job only; the answer to a repetition is 200.",
    responses=problems(400, 403, 409, 413, 422, 503, 507),
)
def submit() -> tuple[JobOut, int, dict[str, str]]:
    found = services()
    key = _idempotency_key()
    with found.scratch.folder(found.new_id()) as folder:
        settings = found.settings
        intake = Intake(
            folder,
            max_plate=settings.max_plate_bytes,
            max_picture=settings.max_picture_bytes,
            max_clip=settings.max_clip_bytes,
        )
        parcel = _multipart(intake) if request.mimetype == "multipart/form-data" else _by_uri(intake, found)
        placed = Submission(found).place(parcel, key)
    where = url_for("jobs.get_job", job_id=placed.job_id)
    return found.ledger.job(placed.job_id), 201 if placed.created else 200, {"Location": where}


@bp.get("")
@bp.input(JobQuery, location="query")
@bp.output(JobPage)
@bp.doc(summary="List jobs, newest first", responses=problems(400, 422, 503))
def list_jobs(query_data: JobQuery) -> JobPage:
    return services().ledger.jobs(query_data)


@bp.get("/<job_id>")
@bp.output(JobOut)
@bp.doc(summary="A job as it stands", responses=problems(404, 503))
def get_job(job_id: str) -> JobOut:
    return services().ledger.job(job_id)


@bp.get("/<job_id>/chunks")
@bp.output(ChunkList)
@bp.doc(summary="The chunks of a job, in order", responses=problems(404, 503))
def get_chunks(job_id: str) -> ChunkList:
    return ChunkList(items=services().ledger.chunks(job_id))


_STREAM: Answers = {
    200: {"description": "A stream of `change` events and one `end`", "content": {"text/event-stream": {}}}
}


def _add_command(command: str, summary: str) -> None:
    @bp.post(f"/<job_id>/{command}", endpoint=f"{command}_job")
    @bp.output(JobOut)
    @bp.doc(summary=summary, responses=problems(404, 409, 422, 503))
    def run(job_id: str) -> JobOut:
        ledger = services().ledger
        ledger.command(job_id, command, _command_in().reason)
        return ledger.job(job_id)


for _name, _summary in COMMANDS.items():
    _add_command(_name, _summary)


@bp.delete("/<job_id>")
@bp.output(JobOut, status_code=202)
@bp.doc(
    summary="Delete a job with all that is stored of it",
    description="One that has not ended is cancelled first. It is gone when nothing of it runs any more.",
    responses=problems(404, 422, 503),
)
def delete_job(job_id: str) -> JobOut:
    ledger = services().ledger
    ledger.command(job_id, "delete", _command_in().reason)
    return ledger.job(job_id)


@bp.post("/<job_id>/mapping")
@bp.output(JobOut)
@bp.doc(
    summary="Choose who gets which identity",
    description="For a job that is `awaiting_cast`: a MappingRequest, as in the `mapping` option of a job.",
    responses=problems(404, 409, 422, 503),
)
def choose_mapping(job_id: str) -> JobOut:
    decide(job_id, body(MappingRequest))
    return services().ledger.job(job_id)


@bp.get("/<job_id>/events")
@bp.doc(
    summary="Follow a job",
    description="Server-sent events until the job is final. `Last-Event-ID` or `?after=` takes up where one was.",
    responses=_STREAM | problems(404, 503),
)
def follow(job_id: str) -> Response:
    found = services()
    after = _last_event_id()
    found.ledger.job(job_id)
    found.live.enter()

    def read(cursor: int) -> tuple[list[EventOut], bool]:
        final = found.ledger.is_final(job_id)
        return found.ledger.events(job_id, cursor, BATCH), final

    body = Closing(stream(read, after), found.live.leave)
    answer = Response(body, content_type="text/event-stream")
    answer.call_on_close(body.close)
    answer.headers["Cache-Control"] = "no-store"
    answer.headers["X-Accel-Buffering"] = "no"
    return answer


def _idempotency_key() -> str | None:
    key = request.headers.get("Idempotency-Key")
    if key is not None and not (0 < len(key) <= MAX_KEY and key.isprintable()):
        raise InputError("It is not usable.", where="Idempotency-Key", do=f"Send 1 to {MAX_KEY} printable characters.")
    return key


def _last_event_id() -> int:
    given = request.headers.get("Last-Event-ID") or request.args.get("after") or "0"
    if not given.isdigit() or len(given) > 18:
        raise InputError("It is not the id of an event.", where="Last-Event-ID", do="Send the last `id:` you got.")
    return int(given)


def _command_in() -> CommandIn:
    if not request.get_data(cache=True):
        return CommandIn()
    return _parsed(CommandIn, request.get_data(), "body")


def _multipart(intake: Intake) -> Parcel:
    incoming = cast(FarmRequest, request)
    intake.receive(incoming)
    options = _parsed(JobIn, (incoming.form.get("options") or "{}").encode(), "options")
    if options.plate is not None or any(identity.pictures for identity in options.identities):
        raise InputError(
            "An upload names no files of the store.",
            where="options",
            do="Send the files as parts, or send JSON with URIs only.",
        )
    plates = incoming.files.getlist("plate")
    if len(plates) != 1:
        raise InputError(
            "The upload has no plate." if not plates else f"The upload has {len(plates)} plates.",
            where="plate",
            do="Send one video as the part `plate`.",
        )
    pictures: dict[str, list[Received]] = {}
    for name, part in incoming.files.items(multi=True):
        if name != "plate":
            label = _label(name)
            pictures.setdefault(label, []).append(_picture(intake, part, name))
    return Parcel(options, intake.stored(plates[0], "plate", picture=False), pictures)


def _picture(intake: Intake, part: FileStorage, name: str) -> Received:
    return intake.stored(part, name, picture=True)


def _label(part: str) -> str:
    head, _, label = part.partition(".")
    if head != "identity" or not re.fullmatch(LABEL, label or DEFAULT_LABEL):
        raise InputError(
            f"The part {part[:60]!r} is not expected.",
            where="body",
            do="Send plate, identity (or identity.name), options.",
        )
    return label or DEFAULT_LABEL


def _by_uri(intake: Intake, found: Services) -> Parcel:
    if request.mimetype != "application/json":
        raise InputError(
            "The body is neither multipart nor JSON.",
            where="Content-Type",
            do="Send multipart/form-data with the files, or application/json with URIs.",
        )
    return fetch_parcel(_parsed(JobIn, request.get_data(), "body"), intake, found.settings)


def _parsed(model: type[T], text: bytes, where: str) -> T:
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        raise InputError(
            f"It is not valid: {in_words(error, where)}.", where=where, do="See /api/v1/openapi.json."
        ) from None
