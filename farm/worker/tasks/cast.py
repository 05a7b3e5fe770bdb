"""Cast: look at frames sampled over the whole plate, gather the people in it, and decide who becomes whom."""

from __future__ import annotations

from collections.abc import Iterator

from farm.errors import InputError
from farm.faces.cast import Cast, FaceObservation, build_cast, observe
from farm.faces.mapping import MappingMode, MappingRequest, resolve
from farm.faces.views import Analyst
from farm.jobs.wire import CastResult
from farm.media.reader import read_segment
from farm.media.timeline import Timeline
from farm.store import keys
from farm.worker.identities import make_identities
from farm.worker.permission import require_permit
from farm.worker.task import TaskContext

SAMPLE_SECONDS = 0.5
MOST_SAMPLES = 2000
"""A person who is shown for half a second is seen in a plate of up to 17 minutes; longer ones are sampled thinner."""


def cast(context: TaskContext) -> CastResult:
    """The cast object is in the store; the mapping is the request itself, once it was resolved without an error.

    Renderers resolve it again against the same cast, so that no embedding goes into the database.
    """
    require_permit(context)
    identities = make_identities(context)
    timeline = context.timeline()
    found = build_cast(_observations(context, timeline), frames_seen=len(_samples(timeline)))
    key = keys.cast(context.job_id)
    context.store.put_bytes(key, found.to_bytes())
    wanted = context.claim.job.mapping_request
    if wanted is not None:
        request = MappingRequest.model_validate(wanted)
        if not found.members and request.mode is not MappingMode.ALL:
            raise InputError(
                f"No face was found in {found.frames_seen} frames sampled over the plate.",
                where=context.where,
                do="Check that the plate shows the person from the front somewhere, at least 16 pixels high.",
            )
        resolve(request, found, identities)
    return CastResult(cast_key=key, members=_members(found, timeline), mapping=wanted)


def _samples(timeline: Timeline) -> range:
    """Frames to look at: one each half second, fewer where the plate is long."""
    seconds = timeline.seconds(0, len(timeline))
    wanted = min(MOST_SAMPLES, max(1.0, seconds / SAMPLE_SECONDS))
    return range(0, len(timeline), max(1, int(len(timeline) / wanted)))


def _observations(context: TaskContext, timeline: Timeline) -> Iterator[FaceObservation]:
    facts = context.facts()
    analyst = Analyst(context.toolbox.models(), facts, hands=False)
    samples = _samples(timeline)
    for chunk in context.claim.chunks:
        path = context.folder / "segment"
        context.store.get_file(chunk.segment_key, path)
        for frame in read_segment(path, facts, timeline, chunk.first, chunk.last, threads=context.toolbox.threads):
            context.heartbeat.check()
            if frame.index in samples:
                end = min(frame.index + samples.step, len(timeline))
                yield from observe(frame, analyst, seconds=timeline.seconds(frame.index, end))
                context.heartbeat.progress(frame.index, "looking for people")
        path.unlink()


def _members(found: Cast, timeline: Timeline) -> tuple[dict[str, object], ...]:
    start = int(timeline.pts[0])
    return tuple(
        {
            "id": member.id,
            "screen_seconds": round(member.screen_seconds, 3),
            "first_seconds": round(float((member.first_pts - start) * timeline.time_base), 3),
            "last_seconds": round(float((member.last_pts - start) * timeline.time_base), 3),
            "sightings": member.sightings,
        }
        for member in found.members
    )
