"""Plan: probe the plate, find its frames, cut its segments, and publish each chunk as soon as its segment is stored."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from farm.chunker.cut import PlateCutter
from farm.chunker.shelve import Keys, StoredChunk, stored_chunks
from farm.errors import InputError, PlanMismatchError
from farm.faces.cuda.pipeline import CONTEXT
from farm.jobs.wire import ChunkPlan, PlanResult
from farm.media.damage import timeline_warnings
from farm.media.facts import PlateFacts
from farm.media.grow import grown
from farm.media.sandbox import probe_safely, warm_up
from farm.media.timeline import Timeline
from farm.media.whole import job_encoder
from farm.store import keys
from farm.worker.heartbeat import Heartbeat
from farm.worker.task import TaskContext


def plan(context: TaskContext) -> PlanResult:
    """Publishes facts, chunks and timeline; the result counts them.

    Chunks are published while the plate is still being scanned. Where packets and decoding turn out to disagree, the
    plate is planned again by decoding all of it: the chunks are published anew under the same numbers.
    """
    job = context.claim.job
    warm_up()
    path, plate = context.fetch(job.plate, "plate")
    facts = probe_safely(path)
    publish = partial(context.control.publish_plate, context.lease, sha256=plate.sha256, size=plate.size)
    publish(facts.model_dump(mode="json"))
    before, after = CONTEXT if job.recipe.changes_faces else (0, 0)

    progress = PlanProgress(context.heartbeat)

    def cutter(*, by_decoding: bool) -> PlateCutter:
        return PlateCutter(
            path,
            facts,
            context.folder,
            target_seconds=job.chunk_seconds,
            before=before,
            after=after,
            # Trackers remember: at a cut they may forget.
            at_scenes=job.recipe.changes_faces,
            by_decoding=by_decoding,
            watch=progress.found,
            coding=progress.coded,
        )

    def warn(timeline: Timeline) -> None:
        """Add what only the whole timeline shows to the job's warnings."""
        if found := timeline_warnings(facts, timeline):
            publish(facts.model_copy(update={"warnings": (*facts.warnings, *found)}).model_dump(mode="json"))

    shared = {"before": before, "after": after, "encoders": _encoders(context, facts)}
    try:
        return _cut(context, cutter(by_decoding=context.claim.plan_by_decode), shared, warn, progress)
    except PlanMismatchError:
        return _cut(context, cutter(by_decoding=True), shared, warn, progress)


class PlanProgress:
    """What a plan says of itself: how many frames it has found, and in words how many of them are in segments.

    Each call may raise what the heartbeat says to stop with.
    """

    def __init__(self, heartbeat: Heartbeat) -> None:
        self._heartbeat = heartbeat
        self._found = 0
        self._note = "finding frames"

    def found(self, frames: int) -> None:
        """So many frames are known; fewer than before where the plate is decoded from its beginning again."""
        self._found = frames
        self._say()

    def coded(self, frame: int) -> None:
        """Frame number `frame` is coded anew."""
        self._note = f"coding frame {frame} anew"
        self._say()

    def stored(self, frames: int) -> None:
        """The first `frames` frames are in segments in the store."""
        self._note = f"cutting segments, {frames} frames stored"
        self._say()

    def _say(self) -> None:
        self._heartbeat.progress(self._found, self._note)
        self._heartbeat.check()


def _cut(
    context: TaskContext,
    cutter: PlateCutter,
    shared: dict[str, Any],
    warn: Callable[[Timeline], None],
    progress: PlanProgress,
) -> PlanResult:
    def keys_of(number: int) -> Keys:
        return Keys(keys.segment(context.job_id, number), keys.segment_timeline(context.job_id, number))

    chunks = 0
    for stored in stored_chunks(cutter, context.store, keys_of, before=shared["before"], after=shared["after"]):
        _publish(context, stored, shared)
        chunks += 1
        progress.stored(stored.chunk.range.last)
    timeline = cutter.timeline()
    _check_length(context, timeline)
    warn(timeline)
    key = keys.timeline(context.job_id)
    context.store.put_bytes(key, timeline.to_bytes())
    context.control.publish_timeline(context.lease, key=key, frames=len(timeline))
    return PlanResult(chunks=chunks, frames=len(timeline))


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
    job = context.claim.job
    large = grown(facts, job.recipe.scale)
    return {
        name: job_encoder(
            name, large, max_bytes=job.options.get("max_bytes"), loudness=job.options.get("loudness")
        ).to_json()
        for name in job.deliverables
    }


def _publish(context: TaskContext, stored: StoredChunk, shared: dict[str, Any]) -> None:
    """Say that a chunk is there, whose objects are in the store."""
    chosen, segment = stored.chunk.range, stored.chunk.segment
    context.control.publish_chunk(
        context.lease,
        ChunkPlan(
            position=chosen.index,
            first=chosen.first,
            last=chosen.last,
            seconds=stored.part.seconds(chosen.first, chosen.last),
            segment_key=stored.keys.segment,
            segment_sha256=stored.segment.sha256,
            segment_size=stored.segment.size,
            plan=shared | {"segment": segment.coding, "timeline": stored.keys.timeline},
        ),
        codecs=sorted({plan["encoder"] for plan in shared["encoders"].values() if plan["hardware"]}),
    )
