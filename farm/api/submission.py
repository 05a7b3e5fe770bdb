"""From a request to a job: everything is checked before anything is kept, and on a refusal nothing is left.

Objects come first, under the prefix of the job to be, then the transaction that makes the job. When that fails the
prefix is removed; when this process dies in between, the sweep of orphans finds it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from pydantic import ValidationError

from farm.api.intake import Received, disk_full_named
from farm.api.schemas import IdentityIn, JobIn
from farm.api.services import Placed, Services
from farm.errors import DiskFullError, FarmError, InputError, NotFoundError, unknown
from farm.faces.mapping import MappingRequest
from farm.invalid import in_words
from farm.jobs.request import IdentityRef, JobRequest, Needed, PictureRef, PlateRef
from farm.media.deliverables import deliverable
from farm.media.facts import PlateFacts
from farm.media.grow import grown
from farm.media.loudness import loudness_norm
from farm.media.whole import check_size
from farm.merger.carry import losses
from farm.provenance.consent import Consent, ConsentPolicy, admit
from farm.recipe import Recipe, preset, tuned
from farm.store import keys

# The store holds the plate, its segments, chunk results and deliverables side by side: a few times the plate.
ROOM_FACTOR = 3

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Parcel:
    """What arrived: the options, the plate, and the pictures by the label of their identity."""

    options: JobIn
    plate: Received
    pictures: Mapping[str, Sequence[Received]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Checked:
    recipe: Recipe
    consent: Consent
    mapping: MappingRequest | None
    identities: tuple[IdentityIn, ...]
    facts: PlateFacts


class Submission:
    """Checks and places parcels."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def place(self, parcel: Parcel, idempotency_key: str | None) -> Placed:
        """Make the job. Errors: InputError and its kin, PolicyError, ConflictError, InfrastructureError."""
        checked = self._check(parcel)
        job_id = self._services.new_id()
        try:
            with disk_full_named():
                request = self._store(job_id, parcel, checked)
        except BaseException:
            self._remove(job_id)
            raise
        placed = self._commit(job_id, request, idempotency_key, checked.facts)
        self._services.wake()  # hurries a worker along; the reconciler does it anyway
        return placed

    def _commit(self, job_id: str, request: JobRequest, idempotency_key: str | None, facts: PlateFacts) -> Placed:
        """Make the job; a key of our own makes a commit that was not heard of harmless to repeat."""
        ledger = self._services.ledger
        try:
            placed = ledger.submit(request, job_id, idempotency_key or f"submission:{job_id}", facts)
        except BaseException:
            # It may have been made all the same: only what surely belongs to no job is removed.
            if not ledger.exists(job_id):
                self._remove(job_id)
            raise
        if placed.job_id != job_id:
            self._remove(job_id)
        return placed

    def _check(self, parcel: Parcel) -> _Checked:
        options, settings = parcel.options, self._services.settings
        recipe = tuned(named(partial(preset, options.recipe)), options.settings)
        for name in options.deliverables:
            check_size(named(partial(deliverable, name)), options.max_bytes)
        if options.loudness is not None:
            named(partial(loudness_norm, options.loudness))
        named(partial(self._services.check_recipe, recipe))
        consent = admit(options.consent, ConsentPolicy(settings.consent_policy), changes_faces=recipe.changes_faces)
        facts = self._probe(parcel.plate)
        large = grown(facts, recipe.scale)
        for name in options.deliverables:
            losses(large, deliverable(name))  # a deliverable that cannot be made of this plate is refused here
        identities = self._identities(parcel, recipe)
        labels = [identity.label for identity in identities]
        mapping = None if options.choose_mapping else mapping_of(options.mapping, labels)
        self._check_room(parcel)
        return _Checked(recipe, consent, mapping, identities, facts)

    def _probe(self, plate: Received) -> PlateFacts:
        facts = self._services.probe(plate)
        longest = self._services.settings.max_plate_seconds
        if facts.duration is not None and facts.duration > longest:
            raise InputError(
                f"The plate is {float(facts.duration):.0f} s long; at most {longest} s are taken.",
                where=plate.label,
                do="Cut it, or raise FARM_MAX_PLATE_SECONDS.",
            )
        return facts

    def _identities(self, parcel: Parcel, recipe: Recipe) -> tuple[IdentityIn, ...]:
        """The identities, each with pictures that were checked for a face."""
        told = {identity.label: identity for identity in parcel.options.identities}
        for label in told:
            if not parcel.pictures.get(label):
                raise InputError(
                    f"There is no picture or clip of the identity {label!r}.",
                    where=label,
                    do="Send one, or leave it out.",
                )
        identities = tuple(told.get(label, IdentityIn(label=label)) for label in parcel.pictures)
        if recipe.puts_in_faces and not identities:
            raise InputError(
                f"The recipe {recipe.name!r} puts in a face and none was given.",
                where="identity",
                do="Send at least one picture or clip of one person (--identity FACE.jpg).",
            )
        for identity in identities:
            self._check_identity(identity, parcel.pictures[identity.label])
        return identities

    def _check_identity(self, identity: IdentityIn, given: Sequence[Received]) -> None:
        """InputError unless the pictures show the one face meant and every clip shows a face."""
        settings = self._services.settings
        clips = [file for file in given if file.is_clip]
        pictures = [file for file in given if file not in clips]
        for what, files, most in (("pictures", pictures, settings.max_pictures), ("clips", clips, settings.max_clips)):
            if len(files) > most:
                raise InputError(
                    f"There are {len(files)} {what}; at most {most} are taken.",
                    where=identity.label,
                    do="Send the best ones.",
                )
        if pictures:
            found = [picture.path.read_bytes() for picture in pictures]
            self._services.check_faces(found, identity.face, identity.label)
        for clip in clips:
            self._check_clip(clip)

    def _check_clip(self, clip: Received) -> None:
        """Looked at in a process of its own, as plates are; the cast task reads the whole clip."""
        longest = self._services.settings.max_clip_seconds
        with _blaming(clip.label):
            facts = self._services.probe(clip)
            if facts.duration is not None and facts.duration > longest:
                raise InputError(
                    f"The clip is {float(facts.duration):.0f} s long; at most {longest} s are taken.",
                    do="Cut it to what shows the person, or raise FARM_MAX_CLIP_SECONDS.",
                )
            self._services.check_stills(self._services.stills(clip.path), clip.label)

    def _check_room(self, parcel: Parcel) -> None:
        root = getattr(self._services.store, "root", None)
        if root is None:
            return
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        needed, free = parcel.plate.size * ROOM_FACTOR, shutil.disk_usage(root).free
        if needed > free:
            raise DiskFullError(
                f"The job needs about {needed:,} bytes of the farm's disk and {free:,} are left.",
                where="store",
                do="Free some space on the farm's machine, then submit again.",
            )

    def _store(self, job_id: str, parcel: Parcel, checked: _Checked) -> JobRequest:
        store, options = self._services.store, parcel.options
        plate = store.put_file(keys.plate(job_id), parcel.plate.path)
        identities = tuple(
            IdentityRef(
                label=identity.label,
                face=identity.face,
                pictures=tuple(
                    PictureRef(
                        object_key=store.put_file(keys.picture(job_id, number, n), picture.path).key,
                        sha256=picture.sha256,
                    )
                    for n, picture in enumerate(parcel.pictures[identity.label])
                ),
            )
            for number, identity in enumerate(checked.identities)
        )
        return JobRequest(
            title=options.title,
            plate=PlateRef(object_key=plate.key, sha256=parcel.plate.sha256, size=parcel.plate.size),
            identities=identities,
            mapping=checked.mapping.model_dump(mode="json") if checked.mapping else None,
            recipe=checked.recipe,
            deliverables=options.deliverables,
            options=options.model_dump(include={"max_bytes", "loudness"}, exclude_none=True),
            chunk_seconds=options.chunk_seconds or self._services.settings.chunk_seconds,
            priority=options.priority,
            deadline=options.deadline,
            tags=options.tags,
            project=options.project,
            owner=options.owner,
            batch=options.batch,
            needs=(
                *(Needed(job_id=job_id) for job_id in options.needs),
                *(Needed(job_id=job_id, hard=False) for job_id in options.needs_ended),
            ),
            max_running=options.max_running,
            vram_mb=options.vram_mb,
            max_attempts=options.max_attempts or self._services.settings.max_attempts,
            max_retries=self._services.settings.max_retries if options.max_retries is None else options.max_retries,
            consent=checked.consent.model_dump(mode="json"),
            permit=self._services.permits.issue(
                job=job_id,
                plate_sha256=parcel.plate.sha256,
                identities=tuple(p.sha256 for label in parcel.pictures for p in parcel.pictures[label]),
                recipe_digest=checked.recipe.digest(),
                consent=checked.consent,
            ),
        )

    def _remove(self, job_id: str) -> None:
        with suppress(FarmError, OSError):
            self._services.store.delete_prefix(keys.job(job_id))


@contextmanager
def _blaming(label: str) -> Iterator[None]:
    """Let errors name this part of the upload instead of the plate."""
    try:
        yield
    except InputError as error:
        raise type(error)(error.what, where=label, do=error.do) from error


def named(find: Callable[[], T]) -> T:
    """What `find` gives; a name that is not there is the request's fault, not a missing page."""
    try:
        return find()
    except NotFoundError as error:
        raise InputError(error.what, where=error.where, do=error.do) from error


def mapping_of(asked: dict[str, Any] | None, labels: Sequence[str]) -> MappingRequest | None:
    """Who gets which identity; by default the person with the most screen time gets the first."""
    if asked is None:
        return MappingRequest(identity=labels[0]) if labels else None
    try:
        mapping = MappingRequest.model_validate(asked)
    except ValidationError as error:
        raise InputError(
            f"It is not valid: {in_words(error, 'mapping')}.", where="mapping", do="See MappingRequest in the docs."
        ) from None
    check_mapping(mapping, labels)
    return mapping


def check_mapping(mapping: MappingRequest, labels: Sequence[str], members: Sequence[str] = ()) -> None:
    """InputError for an identity that is none of `labels`, or a cast member that is none of `members`, once known."""
    for name in {mapping.identity, *mapping.assignments.values(), *mapping.references, *mapping.references.values()}:
        if name is not None and name not in labels:
            raise unknown(InputError, "identity", name, labels, where="mapping")
    for member in mapping.assignments:
        if members and member not in members:
            raise InputError(
                f"There is no cast member {member!r}.", where="mapping", do=f"Name some of: {', '.join(members)}."
            )
