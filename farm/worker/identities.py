"""The prepared identities of a job: made once, by its cast task, and the same for every chunk afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from farm.faces.calibration import in_full
from farm.faces.footage import pictures_and_clips
from farm.faces.identity import PreparedIdentity, prepare_identity
from farm.faces.likeness import fitted, sitters
from farm.faces.mapping import MappingRequest
from farm.faces.neural_identity import with_sources
from farm.faces.processors import fits_forms
from farm.jobs.request import IdentityRef
from farm.store import keys
from farm.worker.task import TaskContext


def make_identities(context: TaskContext) -> dict[str, PreparedIdentity]:
    """Prepare every identity of the job from its pictures, store them, and give them by label.

    What the recipe's neural swappers are told of an identity is part of it, so that every chunk is told the same.
    Those that are to be put in have their forms fitted where the recipe says so.
    """
    made, job = {}, context.claim.job
    worn = _worn(job.mapping_request, job.identities) if fits_forms(job.recipe) else frozenset()
    heads = sitters(context.toolbox.models()) if worn else []
    for number, identity in enumerate(job.identities):
        pictures, clips = pictures_and_clips(_files(context, number, identity))
        models = context.toolbox.models()
        prepared = prepare_identity(pictures, models, face=identity.face, clips=clips, tick=context.heartbeat.check)
        if identity.label in worn:
            prepared = fitted(prepared, heads, models, context.heartbeat.check)
        prepared = with_sources(prepared, in_full(job.recipe), models, context.toolbox.sources)
        context.store.put_bytes(keys.identity(context.job_id, number), prepared.to_bytes())
        made[identity.label] = prepared
        context.heartbeat.check()
    return made


def _worn(mapping: Mapping[str, Any] | None, identities: Sequence[IdentityRef]) -> frozenset[str]:
    """Labels of the identities that may be put in: all but those that only show whom to replace."""
    shown = frozenset(identity.label for identity in identities)
    if mapping is None:
        return shown
    references = MappingRequest.model_validate(mapping).references
    return shown - (references.keys() - set(references.values()))


def _files(context: TaskContext, number: int, identity: IdentityRef) -> Iterator[tuple[Path, str]]:
    """The identity's pictures and clips, fetched, each with what to call it."""
    for position, given in enumerate(identity.pictures):
        path, _ = context.fetch(given, f"picture-{number}-{position}")
        yield path, f"identity {number + 1}, file {position + 1}"


def stored_identities(context: TaskContext) -> dict[str, PreparedIdentity]:
    """The identities that the job's cast task prepared, by label."""
    found = {}
    for number, identity in enumerate(context.claim.job.identities):
        key = keys.identity(context.job_id, number)
        stored = context.store.head(key)  # a job with another recipe has them prepared anew, under the same key
        found[identity.label] = context.toolbox.identity(
            f"{key}@{stored.sha256 if stored else ''}",
            lambda key=key: PreparedIdentity.from_bytes(context.store.get_bytes(key)),  # type: ignore[misc]
        )
    return found
