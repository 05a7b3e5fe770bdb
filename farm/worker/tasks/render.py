"""Render: decode a chunk's segment, run the recipe on its frames, encode them for every deliverable. Bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from farm.errors import OutOfMemoryError, RecipeError
from farm.faces.cast import Cast
from farm.faces.cuda.networks import CARD
from farm.faces.cuda.pipeline import CONTEXT, CardPipeline
from farm.faces.mapping import Mapping, MappingRequest, resolve
from farm.faces.pipeline import FacePipeline, Rendered
from farm.faces.readiness import models_for
from farm.faces.report import FrameReport, summarise
from farm.faces.stages import Behind, Depth, ahead
from farm.inference.bound import device_errors
from farm.jobs.wire import ChunkTask, ObjectOut, RenderResult
from farm.media.card_picture import through_memory
from farm.media.deliverables import Source
from farm.media.encoders import EncoderPlan
from farm.media.facts import PlateFacts
from farm.media.frame import Frame
from farm.media.grow import grown
from farm.media.nvdec import CPU, NVDEC, DecoderChoice
from farm.media.reader import read_segment
from farm.media.segmentdecoder import segment_decoder
from farm.media.timeline import Timeline
from farm.media.writer import ChunkFacts, ChunkWriter
from farm.provenance.label import Label
from farm.provenance.permit import Permit
from farm.recipe import Recipe
from farm.store import keys
from farm.worker.back_end import BackEnd, choose, pipeline_of, smaller
from farm.worker.back_end import Cast as Roles
from farm.worker.calibrating import calibrated
from farm.worker.fingerprint import fingerprint, taken_over
from farm.worker.identities import stored_identities
from farm.worker.permission import require_permit
from farm.worker.previews import Previews
from farm.worker.scratch import REPORTS, scratch_root
from farm.worker.slot_report import Reporter
from farm.worker.task import TaskContext

_AHEAD = 8
"""Frames between two stages: enough to ride out a slow one, few enough for 8K."""


def render(context: TaskContext) -> RenderResult:
    """Renders one chunk, or takes over a result that was made of the same; its files are in the store afterwards.

    Where the card's memory runs out, the chunk begins anew with half the batch, in the end without the card.
    """
    chunk = _chunk(context)
    permit = require_permit(context)
    facts, timeline = context.facts(), Timeline.from_bytes(context.store.get_bytes(chunk.plan["timeline"]))
    recipe = context.claim.job.recipe.as_is() if chunk.as_is else context.claim.job.recipe
    models, card = context.toolbox.models(), context.toolbox.card
    label = _label(context, recipe, permit, facts)
    recipe = calibrated(context, recipe)
    digest = fingerprint(context, chunk, timeline, recipe, models.catalogue, permit, labelled=label is not None)
    found = context.control.reusable(context.lease, digest)
    if found is not None and (result := taken_over(context, chunk, found, digest)) is not None:
        return result
    segment = context.folder / "segment"
    context.store.get_file(chunk.segment_key, segment)
    work = _Work(context, chunk, _Plate(segment, facts, timeline), _roles(context, recipe), label)
    back_end = choose(card, recipe, facts, models)
    if back_end.on_card and int(chunk.plan["before"]) < CONTEXT[0]:
        back_end = BackEnd(CPU, "the chunk was cut with less context than the card's path looks at")
    while True:
        decoder = work.decoder(back_end)
        try:
            with device_errors(context.where):
                outputs, reports = work.run(back_end, decoder)
            break
        except OutOfMemoryError:
            if not back_end.on_card:
                raise
        # Behind the block: while the error is alive, its traceback holds what was on the card.
        back_end = smaller(back_end, card, recipe, facts, models)
    stored = outputs.store()
    environment = _environment(context, chunk, recipe, back_end, decoder)
    environment |= {"fingerprint": digest, "encoders_fed": outputs.ways}
    if back_end.on_card:
        environment["slot_mib"] = card.remember(recipe)
    return RenderResult(
        frames=chunk.last - chunk.first,
        outputs=stored,
        report=summarise(reports).model_dump(mode="json"),
        environment=environment,
    )


@dataclass(frozen=True, slots=True)
class _Plate:
    """The chunk's segment, and the part of the timeline that it holds."""

    segment: Path
    facts: PlateFacts
    timeline: Timeline


class _Work:
    """One chunk, ready to be rendered as often as it takes."""

    def __init__(
        self, context: TaskContext, chunk: ChunkTask, plate: _Plate, roles: Roles, label: Label | None
    ) -> None:
        self._context, self._chunk, self._plate, self._roles, self._label = context, chunk, plate, roles, label

    def decoder(self, back_end: BackEnd) -> DecoderChoice:
        """The card's decoder where frames are worked on there and it is proved; for a twin the processor's."""
        if back_end.name != CARD:
            return DecoderChoice(CPU, "frames are not worked on by the card")
        return segment_decoder(self._plate.segment, self._plate.facts, self._plate.timeline)

    def run(self, back_end: BackEnd, decoder: DecoderChoice) -> tuple[_Outputs, list[FrameReport]]:
        context, chunk = self._context, self._chunk
        facts, timeline = self._plate.facts, self._plate.timeline
        plans = [EncoderPlan.model_validate(plan) for plan in chunk.plan["encoders"].values()]
        previews = _previews(context, chunk, facts, self._roles.recipe)
        pipeline = pipeline_of(
            back_end,
            self._roles,
            facts,
            context.toolbox.models(),
            self._label,
            matte=any(plan.source is not Source.PICTURE for plan in plans),
            threads=context.toolbox.threads,
            watcher=previews if decoder.name == NVDEC else None,
            to_encoder=back_end.name == CARD and not all(through_memory(plan) for plan in plans),
        )
        reports: list[FrameReport] = []
        outputs = _Outputs(context, chunk, facts, timeline, on_card=back_end.name == CARD)
        decoded = Depth()
        frames = self._frames(decoder, pipeline.context, previews, decoded)

        def queues() -> dict[str, int]:
            return pipeline.queues if isinstance(pipeline, CardPipeline) else {"decoded": decoded.value}

        with previews, outputs, Behind(outputs.write, _AHEAD) as encoding, self._reporting() as reporter:
            for done, rendered in enumerate(_watched(context, pipeline, frames, chunk), start=1):
                reporter.frame(done, lambda: back_end.report(**queues(), to_encode=encoding.depth))
                if self._label is not None and not back_end.on_card:
                    self._label.apply(rendered.frame)
                reports.append(rendered.report)
                previews.rendered(rendered.frame)
                encoding.put(rendered)
        return outputs, reports

    def _reporting(self) -> closing[Reporter]:
        settings = self._context.settings
        return closing(Reporter(scratch_root(settings) / REPORTS, settings.worker_id or ""))

    def _frames(
        self, decoder: DecoderChoice, context: tuple[int, int], previews: Previews, depth: Depth
    ) -> Iterator[Frame]:
        chunk, plate = self._chunk, self._plate
        before, after = min(context[0], int(chunk.plan["before"])), min(context[1], int(chunk.plan["after"]))
        low, high = max(0, chunk.first - before), min(len(plate.timeline), chunk.last + after)
        on_card, threads = decoder.name == NVDEC, self._context.toolbox.threads
        frames = read_segment(
            plate.segment, plate.facts, plate.timeline, low, high, threads=1 if on_card else threads, on_card=on_card
        )
        # The card's pipeline reads ahead itself, into its own memory: a decoder has few pictures.
        return frames if on_card else ahead(previews.watched(frames), _AHEAD, depth)


def _chunk(context: TaskContext) -> ChunkTask:
    if context.claim.chunk is None:
        raise RecipeError("A render task came without its chunk.", where=context.where, do="Requeue the job.")
    return context.claim.chunk


def _roles(context: TaskContext, recipe: Recipe) -> Roles:
    if not recipe.puts_in_faces:
        return Roles(recipe, Mapping(), {})
    if context.claim.cast_key is None:
        raise RecipeError("A render task came before the cast is known.", where=context.where, do="Requeue the job.")
    identities = stored_identities(context)
    cast = Cast.from_bytes(context.store.get_bytes(context.claim.cast_key))
    return Roles(recipe, resolve(MappingRequest.model_validate(context.claim.mapping), cast, identities), identities)


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
    context: TaskContext, pipeline: FacePipeline | CardPipeline, frames: Iterator[Frame], chunk: ChunkTask
) -> Iterator[Rendered]:
    """The pipeline's frames, with progress reported and the order to stop obeyed at each."""
    for done, rendered in enumerate(pipeline.process(frames, chunk.first, chunk.last), start=1):
        context.heartbeat.check()
        yield rendered
        context.heartbeat.progress(done, "rendering")


def _environment(
    context: TaskContext, chunk: ChunkTask, recipe: Recipe, back_end: BackEnd, decoder: DecoderChoice
) -> dict[str, object]:
    plans = [EncoderPlan.model_validate(plan) for plan in chunk.plan["encoders"].values()]
    return {
        "encoders": {plan.deliverable: plan.encoder for plan in plans},
        "encoders_why": {plan.deliverable: " ".join(plan.why) for plan in plans},
        "decoder": decoder.name,
        "decoder_why": decoder.why,
        "segment": chunk.plan["segment"],
        "models": _models(context, recipe) if recipe.processors else [],
        **back_end.record(),
    }


def _models(context: TaskContext, recipe: Recipe) -> list[dict[str, object]]:
    """What this render used: a warm slot also holds the models of other recipes."""
    models = context.toolbox.models()
    mine = models_for(recipe, models.catalogue)
    return [use.as_dict() for use in models.used() if use.name in mine]


class _Outputs:
    """One encoder for each deliverable, all fed with the same frames."""

    def __init__(
        self, context: TaskContext, chunk: ChunkTask, facts: PlateFacts, timeline: Timeline, *, on_card: bool
    ) -> None:
        self._context = context
        self._chunk = chunk
        self._writers: dict[str, ChunkWriter] = {}
        self._paths: dict[str, Path] = {}
        self._open = ExitStack()
        for name in context.claim.job.deliverables:
            plan = EncoderPlan.model_validate(chunk.plan["encoders"][name])
            path = context.folder / f"{name}{plan.chunk_suffix}"
            writer = ChunkWriter(path, plan, facts, timeline, chunk.first, chunk.last, on_card=on_card)
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
            writer.write(rendered.frame, rendered.mask, rendered.there)

    @property
    def ways(self) -> dict[str, str]:
        """How frames went to each deliverable's encoder, and why."""
        return {name: writer.way for name, writer in self._writers.items()}

    def store(self) -> dict[str, ObjectOut]:
        """Put the finished files into the store, under this attempt's own keys."""
        stored = {}
        for name, path in self._paths.items():
            self._context.heartbeat.check()
            key = keys.chunk_result(self._context.job_id, self._chunk.position, self._context.lease.attempt_id, name)
            info = self._context.store.put_file(key, path)
            stored[name] = self._context.stored(info, self._facts[name].model_dump(mode="json"))
        return stored
