"""Plan: probe the plate, find its frames, cut its segments, and publish each chunk as soon as its segment is stored."""

from __future__ import annotations

from typing import Any

from farm.chunker.plan import ChunkRange, plan_chunks
from farm.errors import InputError
from farm.faces.track import AFTER, BEFORE
from farm.jobs.wire import ChunkPlan, PlanResult
from farm.media.deliverables import deliverable
from farm.media.encoders import chunk_encoder
from farm.media.facts import PlateFacts
from farm.media.probe import probe
from farm.media.scan import scan_timeline
from farm.media.segment import cut_segments
from farm.media.segmentfile import Segment
from farm.media.timeline import Timeline
from farm.store import keys
from farm.worker.task import TaskContext


def plan(context: TaskContext) -> PlanResult:
    """Publishes facts, timeline and chunks; the result counts them."""
    job = context.claim.job
    path, plate = context.fetch(job.plate, "plate")
    facts = probe(path)
    context.control.publish_plate(context.lease, facts.model_dump(mode="json"), sha256=plate.sha256, size=plate.size)
    context.heartbeat.progress(0, "finding the frames")
    timeline = scan_timeline(path, facts, on_frame=lambda _: context.heartbeat.check())
    _check_length(context, timeline)
    key = keys.timeline(job.id)
    context.store.put_bytes(key, timeline.to_bytes())
    context.control.publish_timeline(context.lease, key=key, frames=len(timeline))
    before, after = (BEFORE, AFTER) if job.recipe.changes_faces else (0, 0)
    ranges = plan_chunks(timeline, target_seconds=job.chunk_seconds)
    shared = {"before": before, "after": after, "encoders": _encoders(context, facts)}
    segments = cut_segments(path, facts, timeline, ranges, context.folder, before=before, after=after)
    for chunk, segment in zip(ranges, segments, strict=True):
        _publish(context, timeline, chunk, segment, shared)
        context.heartbeat.progress(chunk.last, "cutting segments")
        context.heartbeat.check()
    return PlanResult(chunks=len(ranges), frames=len(timeline))


def _check_length(context: TaskContext, timeline: Timeline) -> None:
    seconds, most = timeline.seconds(0, len(timeline)), context.settings.max_plate_seconds
    if seconds > most:
        raise InputError(
            f"The plate lasts {seconds:.0f} s, and this farm takes at most {most} s.",
            where=context.where,
            do="Cut it, or raise FARM_MAX_PLATE_SECONDS.",
        )


def _encoders(context: TaskContext, facts: PlateFacts) -> dict[str, Any]:
    """The encoder plan of each deliverable: made once, so that every chunk's stream has the same headers."""
    return {
        name: chunk_encoder(deliverable(name), facts).model_dump(mode="json") for name in context.claim.job.deliverables
    }


def _publish(
    context: TaskContext, timeline: Timeline, chunk: ChunkRange, segment: Segment, shared: dict[str, Any]
) -> None:
    key = keys.segment(context.job_id, chunk.index)
    stored = context.store.put_file(key, segment.path)
    segment.path.unlink()
    context.control.publish_chunk(
        context.lease,
        ChunkPlan(
            position=chunk.index,
            first=chunk.first,
            last=chunk.last,
            seconds=timeline.seconds(chunk.first, chunk.last),
            segment_key=key,
            segment_sha256=stored.sha256,
            segment_size=stored.size,
            plan=shared | {"segment": segment.coding},
        ),
    )
