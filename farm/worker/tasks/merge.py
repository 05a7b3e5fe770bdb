"""Merge: bring the chunks of each deliverable together, prove the result, store it."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from farm.errors import DamagedError, LostResultError, NotFoundError
from farm.jobs.wire import ChunkDone, MergeResult, ObjectOut
from farm.media.encoders import EncoderPlan
from farm.media.writer import ChunkFacts
from farm.merger.join import ChunkFile
from farm.merger.merge import merge as merge_chunks
from farm.provenance.marks import aigc_mark
from farm.store import keys
from farm.store.base import ObjectInfo
from farm.worker.task import TaskContext


def merge(context: TaskContext) -> MergeResult:
    """Every deliverable is in the store, under this attempt's keys, when this returns."""
    plate, _ = context.fetch(context.claim.job.plate, "plate")
    facts, timeline = context.facts(), context.timeline()
    made: dict[str, ObjectOut] = {}
    encoders: dict[str, str] = {}
    for name in context.claim.job.deliverables:
        context.heartbeat.progress(len(made), f"merging {name}")
        plan = EncoderPlan.model_validate(context.claim.done[0].plan["encoders"][name])
        files = [_chunk_file(context, chunk, name, plan) for chunk in context.claim.done]
        out = context.folder / f"deliverable-{name}{plan.suffix}"
        report = merge_chunks(
            plate,
            facts,
            timeline,
            files,
            plan,
            out,
            metadata=_metadata(context),
            threads=context.toolbox.threads,
            untouched=not context.claim.job.recipe.processors,
            progress=partial(_progress, context, name),
        )
        context.heartbeat.check()
        info = context.store.put_file(keys.deliverable(context.job_id, context.lease.attempt_id, name), out)
        made[name] = context.stored(info, report.model_dump(mode="json") | {"suffix": plan.suffix})
        encoders[name] = report.encoder
        for file in (*(chunk.path for chunk in files), out):
            file.unlink()
    return MergeResult(deliverables=made, environment={"encoders": encoders})


def _progress(context: TaskContext, name: str, frames: int, note: str) -> None:
    context.heartbeat.check()
    context.heartbeat.progress(frames, f"{name}: {note}")


def _chunk_file(context: TaskContext, chunk: ChunkDone, name: str, plan: EncoderPlan) -> ChunkFile:
    context.heartbeat.check()
    output = chunk.outputs[name]
    path = context.folder / f"{name}-{chunk.position:06d}{plan.chunk_suffix}"
    if (stored := _fetched(context, output.key, path)) is None or stored.sha256 != output.sha256:
        raise LostResultError(
            "The accepted result of the chunk is gone from the store, or is another one by now.",
            position=chunk.position,
            where=f"{context.where}, chunk {chunk.position}",
            do="It is rendered again; if that recurs, check the store.",
        )
    return ChunkFile(path, ChunkFacts.model_validate(output.facts), stored.sha256)


def _fetched(context: TaskContext, key: str, path: Path) -> ObjectInfo | None:
    """The object as a file; None where it is gone or, at a second look too, damaged."""
    for _ in range(2):
        try:
            return context.store.get_file(key, path)
        except NotFoundError:
            return None
        except DamagedError:
            continue
    return None


def _metadata(context: TaskContext) -> dict[str, str]:
    """The marks that the file carries: none where no face was changed."""
    if not context.claim.job.recipe.changes_faces:
        return {}
    return {"AIGC": aigc_mark(context.settings.producer, context.job_id)}
