"""The prepared identities of a job: made once, by its cast task, and the same for every chunk afterwards."""

from __future__ import annotations

from farm.faces.candidate import PictureBytes
from farm.faces.footage import ClipFile
from farm.faces.identity import PreparedIdentity, prepare_identity
from farm.faces.neural_identity import with_sources
from farm.jobs.request import IdentityRef
from farm.media.stills import HEAD_BYTES, is_clip
from farm.store import keys
from farm.worker.task import TaskContext


def make_identities(context: TaskContext) -> dict[str, PreparedIdentity]:
    """Prepare every identity of the job from its pictures, store them, and give them by label.

    What the recipe's neural swappers are told of an identity is part of it, so that every chunk is told the same.
    """
    made = {}
    for number, identity in enumerate(context.claim.job.identities):
        pictures, clips = _material(context, number, identity)
        models = context.toolbox.models()
        prepared = prepare_identity(pictures, models, face=identity.face, clips=clips, tick=context.heartbeat.check)
        prepared = with_sources(prepared, context.claim.job.recipe, models, context.toolbox.sources)
        context.store.put_bytes(keys.identity(context.job_id, number), prepared.to_bytes())
        made[identity.label] = prepared
        context.heartbeat.check()
    return made


def _material(context: TaskContext, number: int, identity: IdentityRef) -> tuple[list[PictureBytes], list[ClipFile]]:
    """The identity's pictures and clips, fetched; which is which is told by their first bytes."""
    pictures: list[PictureBytes] = []
    clips: list[ClipFile] = []
    for position, given in enumerate(identity.pictures):
        path, _ = context.fetch(given, f"picture-{number}-{position}")
        with path.open("rb") as file:
            moving = is_clip(file.read(HEAD_BYTES))
        if moving:
            clips.append(ClipFile(path, f"identity {number + 1}, file {position + 1}"))
        else:
            pictures.append(PictureBytes(path.read_bytes(), f"identity {number + 1}, picture {position + 1}"))
    return pictures, clips


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
