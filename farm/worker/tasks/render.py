"""Render: decode a chunk's segment, run the recipe on its frames, encode them for every deliverable. Bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from farm.errors import RecipeError
from farm.faces.cast import Cast
from farm.faces.mapping import Mapping, MappingRequest, resolve
from farm.faces.pipeline import FacePipeline, Rendered
from farm.faces.report import FrameReport, summarise
from farm.jobs.wire import ChunkTask, ObjectOut, RenderResult
from farm.media.encoders import EncoderPlan
from farm.media.facts import PlateFacts
from farm.media.frame import Frame
from farm.media.grow import grown
from farm.media.reader import read_segment
from farm.media.timeline import Timeline
from farm.media.writer import ChunkFacts, ChunkWriter
from farm.provenance.label import Label
from farm.provenance.permit import Permit
from farm.recipe import Recipe
from farm.store import keys
from farm.worker.identities import stored_identities
from farm.worker.permission import require_permit
from farm.worker.previews import Previews
from farm.worker.stages import Behind, ahead
from farm.worker.task import TaskContext

_AHEAD = 8
"""Frames between two stages: enough to ride out a slow one, few enough for 8K."""


def render(context: TaskContext) -> RenderResult:
    """Renders one chunk; its files are in the store when this returns."""
    chunk = _chunk(context)
    permit = require_permit(context)
    facts, timeline = context.facts(), Timeline.from_bytes(context.store.get_bytes(chunk.plan["timeline"]))
    segment = context.folder / "segment"
    context.store.get_file(chunk.segment_key, segment)
    recipe = context.claim.job.recipe.as_is() if chunk.as_is else context.claim.job.recipe
    pipeline = _pipeline(context, recipe, facts)
    label = _label(context, recipe, permit, facts)
    reports: list[FrameReport] = []
    before, after = int(chunk.plan["before"]), int(chunk.plan["after"])
    low, high = max(0, chunk.first - before), min(len(timeline), chunk.last + after)
    previews = _previews(context, chunk, facts, recipe)
    decoded = read_segment(segment, facts, timeline, low, high, threads=context.toolbox.threads)
    frames = ahead(previews.watched(decoded), _AHEAD)
    outputs = _Outputs(context, chunk, facts, timeline)
    with previews, outputs, Behind(outputs.write, _AHEAD) as encoding:
        for rendered in _watched(context, pipeline, frames, chunk):
            if label is not None:
                label.apply(rendered.frame)
            reports.append(rendered.report)
            previews.rendered(rendered.frame)
            encoding.put(rendered)
    stored = outputs.store()
    return RenderResult(
        frames=chunk.last - chunk.first,
        outputs=stored,
        report=summarise(reports).model_dump(mode="json"),
        environment=_environment(context, chunk, recipe),
    )


def _chunk(context: TaskContext) -> ChunkTask:
    if context.claim.chunk is None:
        raise RecipeError("A render task came without its chunk.", where=context.where, do="Requeue the job.")
    return context.claim.chunk


def _pipeline(context: TaskContext, recipe: Recipe, facts: PlateFacts) -> FacePipeline:
    models, threads = context.toolbox.models(), context.toolbox.threads
    if not recipe.puts_in_faces:
        return FacePipeline(recipe, Mapping(), {}, models, facts, threads=threads)
    if context.claim.cast_key is None:
        raise RecipeError("A render task came before the cast is known.", where=context.where, do="Requeue the job.")
    identities = stored_identities(context)
    cast = Cast.from_bytes(context.store.get_bytes(context.claim.cast_key))
    mapping = resolve(MappingRequest.model_validate(context.claim.mapping), cast, identities)
    return FacePipeline(recipe, mapping, identities, models, facts, threads=threads)


def _label(context: TaskContext, recipe: Recipe, permit: Permit | None, facts: PlateFacts) -> Label | None:
    if not recipe.changes_faces:
        return None
    if permit is not None and permit.clean_master and context.settings.label_policy == "by_grant":
        return None
    return Label(grown(facts, recipe.scale).video)


def _previews(context: TaskContext, chunk: ChunkTask, facts: PlateFacts, recipe: Recipe) -> Previews:
    key = keys.preview(context.job_id, chunk.position)
    return Previews(
        partial(context.store.put_bytes, key, content_type="image/jpeg"),
        partial(context.store.delete, key),
        facts,
        grown(facts, recipe.scale),
        chunk.first,
        chunk.last,
        seconds=context.settings.preview_seconds,
    )


def _watched(
    context: TaskContext, pipeline: FacePipeline, frames: Iterator[Frame], chunk: ChunkTask
) -> Iterator[Rendered]:
    """The pipeline's frames, with progress reported and the order to stop obeyed at each."""
    for done, rendered in enumerate(pipeline.process(frames, chunk.first, chunk.last), start=1):
        context.heartbeat.check()
        yield rendered
        context.heartbeat.progress(done, "rendering")


def _environment(context: TaskContext, chunk: ChunkTask, recipe: Recipe) -> dict[str, object]:
    plans = [EncoderPlan.model_validate(plan) for plan in chunk.plan["encoders"].values()]
    return {
        "encoders": {plan.deliverable: plan.encoder for plan in plans},
        "decoder": "cpu",
        "segment": chunk.plan["segment"],
        "models": [use.as_dict() for use in context.toolbox.models().used()] if recipe.processors else [],
    }


class _Outputs:
    """One encoder for each deliverable, all fed with the same frames."""

    def __init__(self, context: TaskContext, chunk: ChunkTask, facts: PlateFacts, timeline: Timeline) -> None:
        self._context = context
        self._chunk = chunk
        self._writers: dict[str, ChunkWriter] = {}
        self._paths: dict[str, Path] = {}
        self._open = ExitStack()
        for name in context.claim.job.deliverables:
            plan = EncoderPlan.model_validate(chunk.plan["encoders"][name])
            path = context.folder / f"{name}{plan.chunk_suffix}"
            writer = ChunkWriter(path, plan, facts, timeline, chunk.first, chunk.last)
            self._writers[name] = self._open.enter_context(writer)
            self._paths[name] = path
        self._facts: dict[str, ChunkFacts] = {}

    def __enter__(self) -> _Outputs:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is None:
            self._facts = {name: writer.close() for name, writer in self._writers.items()}
        self._open.__exit__(kind, error, None)

    def write(self, rendered: Rendered) -> None:
        for writer in self._writers.values():
            writer.write(rendered.frame, rendered.mask)

    def store(self) -> dict[str, ObjectOut]:
        """Put the finished files into the store, under this attempt's own keys."""
        stored = {}
        for name, path in self._paths.items():
            self._context.heartbeat.check()
            key = keys.chunk_result(self._context.job_id, self._chunk.position, self._context.lease.attempt_id, name)
            info = self._context.store.put_file(key, path)
            stored[name] = self._context.stored(info, self._facts[name].model_dump(mode="json"))
        return stored
