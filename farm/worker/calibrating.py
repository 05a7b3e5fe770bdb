"""int8 networks of a job: made by its cast task, which sees the whole plate; used, the same ones, by every chunk."""

from __future__ import annotations

import json
from functools import partial

from farm.errors import NotFoundError, RecipeError
from farm.faces.calibration import (
    FULL,
    Calibration,
    error_of,
    measurable,
    tolerated,
    wants_int8,
    with_precision,
)
from farm.inference.calibrated import Calibrated, Calibrator
from farm.inference.spec import INT8
from farm.recipe import Recipe
from farm.store import keys
from farm.worker.task import TaskContext


def calibrator_of(context: TaskContext) -> Calibrator:
    folder = context.settings.home / "models" / "calibrated"
    return Calibrator(folder, shelf=context.store, name=partial(keys.calibrated_network, context.job_id))


def calibrate(context: TaskContext, seen: Calibration) -> tuple[str, ...]:
    """Make the job's int8 networks of what was seen, note them in the store, and say how far off each precision is.

    RecipeError where an int8 network is farther off than its recipe allows.
    """
    models, found, said = context.toolbox.models(), {}, []
    allowed = tolerated(context.claim.job.recipe)
    precisions = measurable(context.claim.job.recipe, models)

    def beat(state: str) -> None:
        context.heartbeat.check()
        context.heartbeat.progress(0, state)

    for name, recorder in seen.recorders.items():
        full = models.load(name, FULL)
        if name not in allowed:
            kept_back = recorder.samples[1::2]
            if kept_back:
                error = error_of(full, models.load(name, precisions[name]), kept_back)
                said.append(_said(name, precisions[name], error, len(kept_back)))
            continue
        feeds = [full.feed(**sample) for sample in recorder.samples]
        picture = next(tensor for tensor in full.spec.outputs if tensor.kind == "image")
        made = calibrator_of(context).make(
            full.spec, models.weights(name, FULL), feeds, full.graph_output(picture.name), beat=beat
        )
        _check(made, allowed[name])
        found[name] = made.model_dump(mode="json")
        said.append(_said(name, INT8, made.error, made.samples))
    if found:
        context.store.put_bytes(keys.calibrated(context.job_id), json.dumps(found).encode())
    return tuple(said)


def calibrated(context: TaskContext, recipe: Recipe) -> Recipe:
    """The recipe with the job's int8 networks named in it, and known to the slot's models.

    RecipeError where the job has none, or they are gone.
    """
    if not wants_int8(recipe):
        return recipe
    try:
        noted = json.loads(context.store.get_bytes(keys.calibrated(context.job_id)))
    except NotFoundError:
        noted = {}
    made = {name: Calibrated.model_validate(body) for name, body in noted.items()}
    calibrator = calibrator_of(context)
    for name in tolerated(recipe):
        path = calibrator.find(made[name]) if name in made else None
        if path is None:
            raise RecipeError(
                "The job's int8 network is neither on this machine nor in the farm's store.",
                where=f"{context.where}, model {name}",
                do="Requeue the whole job: its cast task makes it anew.",
            )
        context.toolbox.models().calibrated(name, made[name].precision, path, made[name].error)
    return with_precision(recipe, {name: one.precision for name, one in made.items()})


def _check(made: Calibrated, allowed: float) -> None:
    if made.error > allowed:
        raise RecipeError(
            f"In int8 its answers are off by {made.error:.4f} of what they span, on {made.samples} crops of this "
            f"plate, and {allowed:g} is allowed.",
            where=f"model {made.model}",
            do="Use fp16 or fp32, or allow more with int8_error.",
        )


def _said(name: str, precision: str, error: float, samples: int) -> str:
    return f"{name} in {precision} is off by {error:.4f} of what its answers span, on {samples} crops."
