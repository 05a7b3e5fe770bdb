"""/api/v1/jobs/<id>/cast and /report: the people of a plate, corrected by hand, and what became of their faces.

What is done here is done the same for the job's page (`farm.api.pages`).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from apiflask import APIBlueprint
from flask import Response

from farm.api.account import Clock, ReportOut, account
from farm.api.openapi import Answers, problems
from farm.api.operating import body
from farm.api.schemas import CastOut, JobOut, MergeIn, SplitIn
from farm.api.services import CastRecord, Services, services
from farm.api.submission import check_mapping
from farm.errors import ConflictError, FarmError, NotFoundError
from farm.faces.cast_edit import merge_members, split_member
from farm.faces.cast_sheet import contact_sheet, describe_members
from farm.faces.identity import PreparedIdentity
from farm.faces.mapping import MappingRequest
from farm.faces.member import Cast, CastMember
from farm.media.facts import PlateFacts
from farm.store import keys

bp = APIBlueprint("casting", __name__, url_prefix="/api/v1/jobs", tag="Cast")

_JPEG, _PNG = "image/jpeg", "image/png"


@dataclass(frozen=True)
class _Found:
    """A job's cast with what is kept about it."""

    record: CastRecord
    key: str
    cast: Cast

    @property
    def clock(self) -> Clock:
        return Clock(PlateFacts.model_validate(self.record.facts))

    def member(self, name: str) -> CastMember:
        for member in self.cast.members:
            if member.id == name:
                return member
        raise NotFoundError(f"There is no cast member {name!r}.", where="cast", do="See /api/v1/jobs/{id}/cast.")


def _picture(media_type: str) -> Answers:
    return {200: {"description": "The picture", "content": {media_type: {}}}}


@bp.get("/<job_id>/cast")
@bp.output(CastOut)
@bp.doc(
    summary="The people of the plate",
    description="By falling screen time, each with the appearances of which a split can be made. Known once the job's "
    "cast task has ended.",
    responses=problems(404, 409, 503),
)
def get_cast(job_id: str) -> CastOut:
    return people_of(job_id)


def people_of(job_id: str) -> CastOut:
    """The job's cast. ConflictError while it is not known."""
    found = _found(job_id)
    return CastOut(
        job=job_id,
        frames_seen=found.cast.frames_seen,
        editable=found.record.waits,
        identities=list(found.record.labels),
        members=describe_members(found.cast, found.clock.seconds),
    )


@bp.get("/<job_id>/cast/sheet.png")
@bp.doc(summary="The cast as a contact sheet", responses=_picture(_PNG) | problems(404, 409, 503))
def get_sheet(job_id: str) -> Response:
    found = _found(job_id)
    return _shown(contact_sheet(found.cast, found.clock.seconds), _PNG)


@bp.get("/<job_id>/cast/<member>.jpg")
@bp.doc(summary="A cast member's best picture", responses=_picture(_JPEG) | problems(404, 409, 503))
def get_thumbnail(job_id: str, member: str) -> Response:
    return _shown(_found(job_id).member(member).thumbnail, _JPEG)


@bp.get("/<job_id>/cast/appearances/<int:number>.jpg")
@bp.doc(summary="The best picture of one appearance", responses=_picture(_JPEG) | problems(404, 409, 503))
def get_appearance(job_id: str, number: int) -> Response:
    for member in _found(job_id).cast.members:
        for part in member.appearances:
            if part.number == number:
                return _shown(part.thumbnail, _JPEG)
    raise NotFoundError(f"There is no appearance {number}.", where="cast", do="See /api/v1/jobs/{id}/cast.")


@bp.post("/<job_id>/cast/merge")
@bp.output(JobOut)
@bp.doc(
    summary="Say that several cast members are one person",
    description="`into` keeps its id. Until the mapping is decided.",
    responses=problems(404, 409, 422, 503),
)
def merge_cast(job_id: str) -> JobOut:
    merge(job_id, body(MergeIn))
    return services().ledger.job(job_id)


def merge(job_id: str, asked: MergeIn) -> None:
    """Make members one, in the store and the ledger. ConflictError once the mapping is decided."""
    found = _editable(job_id)
    others = ", ".join(asked.others)
    _replace(job_id, found, merge_members(found.cast, asked.into, asked.others), f"{others} became {asked.into}.")


@bp.post("/<job_id>/cast/split")
@bp.output(JobOut)
@bp.doc(
    summary="Say that some appearances of a cast member are another person's",
    description="They make a new member with an id of its own. Until the mapping is decided.",
    responses=problems(404, 409, 422, 503),
)
def split_cast(job_id: str) -> JobOut:
    split(job_id, body(SplitIn))
    return services().ledger.job(job_id)


def split(job_id: str, asked: SplitIn) -> None:
    """Make a new member of some appearances. ConflictError once the mapping is decided."""
    found = _editable(job_id)
    cast, fresh = split_member(found.cast, asked.member, asked.appearances)
    _replace(job_id, found, cast, f"{len(asked.appearances)} appearances of {asked.member} became {fresh}.")


def decide(job_id: str, mapping: MappingRequest) -> None:
    """Decide who becomes whom. InputError for a name that there is not, ConflictError where nobody waits for it."""
    ledger = services().ledger
    record = ledger.cast(job_id)
    check_mapping(mapping, record.labels, record.members)
    ledger.choose_mapping(job_id, mapping.model_dump(mode="json"))


@bp.get("/<job_id>/report")
@bp.output(ReportOut)
@bp.doc(
    summary="What became of each person's face",
    description="Frames found, changed and kept for each cast member, and why, with time codes; frames without a face. "
    "Of the chunks that are done.",
    responses=problems(404, 503),
)
def get_report(job_id: str) -> ReportOut:
    return account_of(job_id)


def account_of(job_id: str) -> ReportOut:
    """The job's account so far. NotFoundError while nothing is known of the plate."""
    found = services()
    record = found.ledger.cast(job_id)
    if record.facts is None:
        raise NotFoundError("Nothing is known of the plate yet.", where=f"job {job_id}", do="Wait until it is planned.")
    cast = Cast.from_bytes(found.store.get_bytes(record.cast_key)) if record.cast_key else Cast(())
    clock = Clock(PlateFacts.model_validate(record.facts))
    return account(found.ledger.reports(job_id), clock, cast, record.mapping, _identities(found, job_id, record))


def _found(job_id: str) -> _Found:
    """The job's cast. ConflictError while it is not known."""
    found = services()
    record = found.ledger.cast(job_id)
    if record.cast_key is None or record.facts is None:
        raise ConflictError(
            "The people of the plate are not known.",
            where=f"job {job_id}",
            do="Wait until the job's cast task has ended; a recipe that puts in no face has none.",
        )
    return _Found(record, record.cast_key, Cast.from_bytes(found.store.get_bytes(record.cast_key)))


def _editable(job_id: str) -> _Found:
    found = _found(job_id)
    if not found.record.waits:
        raise ConflictError(
            "The mapping is decided, so the cast stays as it is.",
            where=f"job {job_id}",
            do="Submit the plate again with choose_mapping.",
        )
    return found


def _replace(job_id: str, found: _Found, cast: Cast, reason: str) -> None:
    """Store the corrected cast and make it the job's, unless somebody else was faster."""
    all_of_it = services()
    key = keys.edited_cast(job_id, all_of_it.new_id())
    all_of_it.store.put_bytes(key, cast.to_bytes())
    try:
        members = describe_members(cast, found.clock.seconds)
        all_of_it.ledger.replace_cast(job_id, found.key, key, members, reason)
    except BaseException:
        with suppress(FarmError, OSError):
            all_of_it.store.delete(key)
        raise


def _identities(found: Services, job_id: str, record: CastRecord) -> dict[str, PreparedIdentity]:
    """The prepared identities, as far as they are in the store."""
    prepared = {}
    for number, label in enumerate(record.labels):
        read = partial(found.store.get_bytes, keys.identity(job_id, number))
        with suppress(NotFoundError):
            prepared[label] = PreparedIdentity.from_bytes(read())
    return prepared


def _shown(picture: bytes, media_type: str) -> Response:
    answer = Response(picture, content_type=media_type)
    answer.headers["Cache-Control"] = "private, no-store"
    answer.headers["X-Content-Type-Options"] = "nosniff"
    return answer
