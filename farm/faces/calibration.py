"""What the networks of a recipe are shown of a plate: recorded to calibrate them in int8."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farm.errors import NotFoundError, PolicyError
from farm.faces.identity import PreparedIdentity
from farm.faces.neural_processors import FaceRestore, NeuralSwap
from farm.faces.neural_settings import NeuralSettings, NeuralSwapSettings, RestoreSettings
from farm.faces.neural_source import Loads, Runs
from farm.faces.target import Target
from farm.faces.views import FrameView
from farm.inference.spec import ModelSpec, is_int8
from farm.media.frame import Frame
from farm.recipe import RESTORE, SWAP, ProcessorSpec, Recipe

FULL = "fp32"
MOST_SAMPLES = 48
_FACES = 3
"""Faces of one frame that are shown: a crowd must not calibrate for one moment."""
_NO_TEXTURE, _NO_SKIN = np.zeros((0, 0, 3), np.float32), np.zeros((0, 0), np.float32)

Sample = dict[str, NDArray[Any]]


def wants_int8(recipe: Recipe) -> bool:
    """Whether a processor of the recipe is to be calibrated."""
    return any(is_int8(processor.settings.get("precision")) for processor in recipe.processors)


def with_precision(recipe: Recipe, precisions: Mapping[str, str]) -> Recipe:
    """The recipe with other precisions where it says int8, by model."""

    def changed(processor: ProcessorSpec) -> ProcessorSpec:
        if not is_int8(processor.settings.get("precision")):
            return processor
        settings = {**processor.settings, "precision": precisions[processor.model]}
        return processor.model_copy(update={"settings": settings})

    return recipe.model_copy(update={"processors": tuple(changed(processor) for processor in recipe.processors)})


def in_full(recipe: Recipe) -> Recipe:
    """The recipe in full precision where it says int8: what identities are prepared by."""
    return with_precision(recipe, {processor.model: FULL for processor in recipe.processors})


def measurable(recipe: Recipe, models: Loads) -> dict[str, str]:
    """Models whose precision a recipe names, other than full, and whose fp32 file is here: the precision by model."""
    found = {}
    for processor in recipe.processors:
        precision = processor.settings.get("precision")
        if precision in (None, FULL) or processor.on_frames:
            continue
        with suppress(NotFoundError, PolicyError, KeyError):
            models.weights(processor.model, FULL)
            found[processor.model] = str(precision)
    return found


class Calibration:
    """Runs processors of the recipe, in full precision, on faces of a plate, and keeps what they are shown.

    identities: who is put in, in turn; for a swap at least one. wanted: models of those processors.
    """

    def __init__(
        self, recipe: Recipe, identities: Mapping[str, PreparedIdentity], models: Loads, wanted: Collection[str]
    ) -> None:
        self.recorders: dict[str, Recorder] = {}
        self._identities = list(identities.items())
        self._processors: list[NeuralSwap | FaceRestore] = []
        self._shown = 0
        for spec in recipe.processors:
            if spec.model not in wanted:
                continue
            recorder = self.recorders[spec.model] = Recorder(models, spec.model)
            settings = {**spec.settings, "precision": FULL}
            if spec.kind == SWAP:
                self._processors.append(NeuralSwap(recorder, spec.model, NeuralSwapSettings.model_validate(settings)))
            elif spec.kind == RESTORE:
                self._processors.append(FaceRestore(recorder, spec.model, RestoreSettings.model_validate(settings)))

    @property
    def done(self) -> bool:
        return all(len(recorder.samples) >= MOST_SAMPLES for recorder in self.recorders.values())

    def see(self, view: FrameView) -> None:
        """Show the frame's faces to the networks; the frame stays as it is."""
        for face in view.faces[:_FACES]:
            if self.done:
                return
            target = Target(points=face.points, texture=_NO_TEXTURE, skin=_NO_SKIN, sharpness=face.sharpness)
            name, identity = self._identities[self._shown % len(self._identities)]
            self._shown += 1
            for processor in self._processors:
                frame = _copy(view.frame)
                if isinstance(processor, NeuralSwap):
                    processor.apply(frame, target, identity, name)
                else:
                    processor.apply(frame, target)


class Recorder:
    """The networks of a catalogue, keeping what `model` is given, sample by sample (`samples`, by the contract)."""

    def __init__(self, models: Loads, model: str) -> None:
        self._models, self._model = models, model
        self.samples: list[Sample] = []

    def load(self, name: str, precision: str | None = None) -> Runs:
        found = self._models.load(name, precision)
        return _Recorded(found, self.samples) if name == self._model else found

    def weights(self, name: str, precision: str | None = None) -> Path:
        return self._models.weights(name, precision)


class _Recorded:
    def __init__(self, model: Runs, samples: list[Sample]) -> None:
        self._network, self._samples = model, samples

    @property
    def spec(self) -> ModelSpec:
        return self._network.spec

    def run_batch(self, **inputs: NDArray[Any]) -> dict[str, NDArray[Any]]:
        self._samples.extend(_split(self.spec, inputs))
        del self._samples[MOST_SAMPLES:]
        return self._network.run_batch(**inputs)


def _split(spec: ModelSpec, inputs: Sample) -> Iterable[Sample]:
    """The samples of a batch; what has no batch axis, or one sample for all, belongs to each."""
    free = {tensor.name for tensor in spec.inputs if isinstance(tensor.shape[0], str)}
    count = max((len(array) for name, array in inputs.items() if name in free), default=1)
    for place in range(count):
        yield {
            name: array[place : place + 1].copy() if name in free and len(array) > 1 else array.copy()
            for name, array in inputs.items()
        }


def error_of(full: Runs, other: Runs, samples: Sequence[Sample]) -> float:
    """Mean difference of a network's picture from that in full precision, as a share of what the latter spans."""
    name = next(tensor.name for tensor in full.spec.outputs if tensor.kind == "image")
    pairs = [[np.asarray(network.run_batch(**one)[name], np.float32) for network in (full, other)] for one in samples]
    span = max(float(a.max()) for a, _ in pairs) - min(float(a.min()) for a, _ in pairs)
    return float(np.mean([np.abs(a - b).mean() for a, b in pairs])) / max(span, 1e-6)


def tolerated(recipe: Recipe) -> dict[str, float]:
    """How far each int8 network may be off, by model."""
    return {
        spec.model: NeuralSettings.model_validate(
            {"int8_error": spec.settings["int8_error"]} if "int8_error" in spec.settings else {}
        ).int8_error
        for spec in recipe.processors
        if is_int8(spec.settings.get("precision"))
    }


def chosen(samples: range, most: int = MOST_SAMPLES) -> Sequence[int]:
    """Which of a plate's sampled frames are shown: spread over all of it."""
    return samples[:: max(1, len(samples) // most)]


def _copy(frame: Frame) -> Frame:
    return Frame(tuple(p.copy() for p in frame.planes), frame.format, frame.colour, frame.pts, frame.index)
