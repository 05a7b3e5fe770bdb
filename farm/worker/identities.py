"""The prepared identities of a job: made once, by its cast task, and the same for every chunk afterwards."""

from __future__ import annotations

from farm.faces.identity import PictureBytes, PreparedIdentity, prepare_identity
from farm.faces.neural_identity import with_sources
from farm.store import keys
from farm.worker.task import TaskContext


def make_identities(context: TaskContext) -> dict[str, PreparedIdentity]:
    """Prepare every identity of the job from its pictures, store them, and give them by label.

    What the recipe's neural swappers are told of an identity is part of it, so that every chunk is told the same.
    """
    made = {}
    for number, identity in enumerate(context.claim.job.identities):
        pictures = []
        for position, picture in enumerate(identity.pictures):
            path, _ = context.fetch(picture, f"picture-{number}-{position}")
            pictures.append(PictureBytes(path.read_bytes(), f"identity {number + 1}, picture {position + 1}"))
        models = context.toolbox.models()
        prepared = prepare_identity(pictures, models, face=identity.face)
        prepared = with_sources(prepared, context.claim.job.recipe, models, context.toolbox.sources)
        context.store.put_bytes(keys.identity(context.job_id, number), prepared.to_bytes())
        made[identity.label] = prepared
        context.heartbeat.check()
    return made


def stored_identities(context: TaskContext) -> dict[str, PreparedIdentity]:
    """The identities that the job's cast task prepared, by label."""
    found = {}
    for number, identity in enumerate(context.claim.job.identities):
        key = keys.identity(context.job_id, number)
        found[identity.label] = context.toolbox.identity(
            key,
            lambda key=key: PreparedIdentity.from_bytes(context.store.get_bytes(key)),  # type: ignore[misc]
        )
    return found
