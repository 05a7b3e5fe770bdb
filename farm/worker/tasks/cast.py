"""Cast: look at frames sampled over the whole plate, gather the people in it, and decide who becomes whom."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from farm.errors import InputError
from farm.faces.calibration import Calibration, chosen, measurable
from farm.faces.cast import GAP_SAMPLES, FaceObservation, build_cast, observed, sampled
from farm.faces.cast_sheet import describe_members
from farm.faces.identity import PreparedIdentity
from farm.faces.mapping import MappingMode, MappingRequest, resolve
from farm.faces.views import Analyst
from farm.jobs.wire import CastResult
from farm.media.reader import read_segment
from farm.media.timeline import Timeline
from farm.store import keys
from farm.words import counted
from farm.worker.calibrating import calibrate
from farm.worker.identities import make_identities
from farm.worker.permission import require_permit
from farm.worker.task import TaskContext


def cast(context: TaskContext) -> CastResult:
    """The cast object is in the store; the mapping is the request itself, once it was resolved without an error.

    Renderers resolve it again against the same cast, so that no embedding goes into the database.
    """
    require_permit(context)
    identities = make_identities(context)
    timeline = context.timeline()
    samples = sampled(len(timeline), timeline.seconds(0, len(timeline)))
    recipe, models = context.claim.job.recipe, context.toolbox.models()
    measured = measurable(recipe, models)
    shown = Calibration(recipe, identities, models, measured) if measured else None
    seen = _observations(context, timeline, samples, shown)
    found = build_cast(seen, frames_seen=len(samples), gap=GAP_SAMPLES * samples.step)
    key = keys.cast(context.job_id)
    context.store.put_bytes(key, found.to_bytes())
    wanted = context.claim.job.mapping_request
    if wanted is not None:
        request = MappingRequest.model_validate(wanted)
        if not found.members and request.mode is not MappingMode.ALL:
            raise InputError(
                f"No face was found in {counted(found.frames_seen, 'frame')} sampled over the plate.",
                where=context.where,
                do="Check that the plate shows the person from the front somewhere, at least 16 pixels high.",
            )
        resolve(request, found, identities)
    members = tuple(describe_members(found, _clock(timeline)))
    errors = calibrate(context, shown) if shown is not None else ()
    return CastResult(cast_key=key, members=members, notes=(*_notes(identities), *errors), mapping=wanted)


def _observations(
    context: TaskContext, timeline: Timeline, samples: range, shown: Calibration | None
) -> Iterator[FaceObservation]:
    facts, to_show = context.facts(), chosen(samples)
    analyst = Analyst(context.toolbox.models(), facts, detector=context.claim.job.recipe.detector, hands=False)
    for chunk in context.claim.chunks:
        path = context.folder / "segment"
        context.store.get_file(chunk.segment_key, path)
        for frame in read_segment(path, facts, timeline, chunk.first, chunk.last, threads=context.toolbox.threads):
            context.heartbeat.check()
            if frame.index in samples:
                end = min(frame.index + samples.step, len(timeline))
                view = analyst.look(analyst.upright(frame), embed=True)
                yield from observed(view, timeline.seconds(frame.index, end))
                if shown is not None and frame.index in to_show:
                    shown.see(view)
                context.heartbeat.progress(frame.index, "looking for people")
        path.unlink()


def _clock(timeline: Timeline) -> Callable[[int], float]:
    start = int(timeline.pts[0])
    return lambda pts: float((pts - start) * timeline.time_base)


def _notes(identities: Mapping[str, PreparedIdentity]) -> tuple[str, ...]:
    """Pictures that do not count, by name: a person should know before the mapping is decided."""
    return tuple(
        f"{label[0].upper()}{label[1:]} shows somebody else than the other pictures and was left out."
        for identity in identities.values()
        for label in identity.outliers
    )
