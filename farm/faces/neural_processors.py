"""Neural swappers and restorers as processors of a recipe: align, run, cover, lay back.

Each face is its own batch, whatever else is in the frame or in the chunk: on a processor a network's answer can differ
in its last bits with the size of the batch, and the result must not.
"""

from __future__ import annotations

from typing import Protocol

import cv2
import numpy as np

from farm.faces.geometry import five_points
from farm.faces.identity import PreparedIdentity
from farm.faces.lab import matched
from farm.faces.meshwarp import SwapSettings, believable
from farm.faces.neural_align import Aligned, aligned, lay_back
from farm.faces.neural_contract import check_contract
from farm.faces.neural_cover import Cover
from farm.faces.neural_identity import Source, plate_face, prepared_source, source_key
from farm.faces.neural_restore import Restored, Restorer
from farm.faces.neural_settings import NeuralSwapSettings, RestoreSettings
from farm.faces.neural_source import Loads
from farm.faces.neural_swap import DfmSwapper, EmbeddingSwapper, Swapper, open_swapper
from farm.faces.neural_upscale import Upscaler
from farm.faces.report import Outcome
from farm.faces.sharpness import clear_enough
from farm.faces.target import Patch, Target
from farm.inference.spec import ModelSpec, Task
from farm.media.frame import Frame
from farm.media.tonemap import Floats, tone_map_of

Done = tuple[Outcome, Patch | None]


class NeuralSwap:
    """A catalogue swapper."""

    def __init__(self, models: Loads, model: str, settings: NeuralSwapSettings) -> None:
        self._models, self._settings = models, settings
        self._spec = models.load(model, settings.precision).spec
        check_contract(self._spec, settings)
        self._swapper = _opened(models, self._spec, settings)
        self._side = self._swapper.side * settings.boost
        self._cover = Cover(models, settings.mask)
        self._pose = SwapSettings(max_yaw=settings.max_yaw, max_pitch=settings.max_pitch)
        self._key = source_key(self._spec, settings.precision)
        self._sources: dict[str, Source] = {}

    def apply(self, frame: Frame, target: Target, identity: PreparedIdentity, name: str) -> Done:
        """Put the identity called `name` onto `target`, in place."""
        if target.size < self._settings.smallest:
            return Outcome.TOO_SMALL, None
        clear = clear_enough(target.sharpness, self._settings.min_sharpness)
        if clear <= 0:
            return Outcome.TOO_BLURRED, None
        strength = self._settings.strength * believable(target.pose, self._pose) * clear
        if strength <= 0:
            return Outcome.TOO_SIDEWAYS, None
        look = tone_map_of(frame.colour)
        five = five_points(target.points)
        face = aligned(frame, five, self._swapper.template, self._side, look)
        if face is None:
            return Outcome.TOO_SMALL, None
        swapped = self._swapper.swap(face.seen[None], self._source(face, target, identity, name))
        if not swapped.ok[0]:
            return Outcome.FAILED, None
        own = swapped.masks[0] if swapped.masks is not None and self._uses_own_mask() else None
        mask = self._cover.of(face, target, given=own) * np.float32(strength)
        made = matched(swapped.faces[0], face.seen, mask > 0.5, self._settings.colour)
        back, redone = look.back(made, face.crop), bool(swapped.redone[0])
        return _laid(frame, face, back, mask, Outcome.SWAPPED, Outcome.FAILED, redone=redone)

    def _source(self, face: Aligned, target: Target, identity: PreparedIdentity, name: str) -> Source:
        source = self._sources.get(name)
        if source is None:
            source = prepared_source(identity, self._swapper, self._spec, self._models, self._key)
            self._sources[name] = source
        if isinstance(self._swapper, EmbeddingSwapper) and self._swapper.weight != 0.5:
            contract = self._models.load(self._spec.input("source").recogniser).spec.inputs[0]
            theirs = plate_face(face, five_points(target.points), contract.template, contract.size)
            return self._swapper.weighted_source(source, theirs)
        return source

    def _uses_own_mask(self) -> bool:
        """Only an autoencoder's masks are meant for pasting; HyperSwap's second output is left alone as published."""
        return isinstance(self._swapper, DfmSwapper)


class FaceRestore:
    """A catalogue restorer, or an upscaler used as one (enlarged, then shrunk to the crop's own size)."""

    def __init__(self, models: Loads, model: str, settings: RestoreSettings) -> None:
        self._settings = settings
        self._restore = _restoring(models, model, settings)
        self._cover = Cover(models, settings.mask)

    def apply(self, frame: Frame, target: Target) -> Done:
        """Restore the face `target`, in place."""
        if target.size < self._settings.smallest:
            return Outcome.TOO_SMALL, None
        look = tone_map_of(frame.colour)
        face = aligned(frame, five_points(target.points), self._restore.template, self._restore.side, look)
        if face is None:
            return Outcome.TOO_SMALL, None
        restored = self._restore.restore(face.seen[None])
        if not restored.ok[0]:
            return Outcome.NOT_RESTORED, None
        made = look.back(restored.faces[0], face.crop)
        mask = self._cover.of(face, target)
        redone = bool(restored.redone[0])
        return _laid(frame, face, made, mask, Outcome.RESTORED, Outcome.NOT_RESTORED, redone=redone)


class _Restores(Protocol):
    side: int
    template: str

    def restore(self, crops: Floats) -> Restored: ...


class Shrunk:
    """An upscaler that gives pictures back at their own size: what it makes of them, averaged over scale² pixels."""

    side, template = 512, "ffhq_512"

    def __init__(self, models: Loads, model: str, *, precision: str | None = None, blend: float = 1.0) -> None:
        self._upscaler = Upscaler(models, model, precision=precision)
        self._blend = np.float32(blend)

    def picture(self, picture: Floats) -> Floats | None:
        """`picture` (h, w, 3), 0..1, cleaned; None where the network gives nothing usable."""
        large = self._upscaler.upscale_or_none(picture)
        if large is None:
            return None
        small = cv2.resize(large, picture.shape[1::-1], interpolation=cv2.INTER_AREA)
        return np.asarray(picture + (small - picture) * self._blend, np.float32)

    def restore(self, crops: Floats) -> Restored:
        made = [self.picture(crop) for crop in crops]
        ok = np.array([one is not None for one in made])
        faces = np.stack([crop if one is None else one for one, crop in zip(made, crops, strict=True)])
        return Restored(faces, ok, np.zeros(len(crops), bool))


def _opened(models: Loads, spec: ModelSpec, settings: NeuralSwapSettings) -> Swapper:
    if any(tensor.name == "source" for tensor in spec.inputs):
        return open_swapper(models, spec, precision=settings.precision, weight=settings.weight)
    return DfmSwapper(models, spec.name, morph=settings.morph)


def _restoring(models: Loads, model: str, settings: RestoreSettings) -> _Restores:
    spec = models.load(model, settings.precision).spec
    check_contract(spec, settings)
    if spec.task is Task.RESTORER:
        return Restorer(models, model, precision=settings.precision, blend=settings.blend, fidelity=settings.fidelity)
    return Shrunk(models, model, precision=settings.precision, blend=1.0 if settings.blend is None else settings.blend)


def _laid(
    frame: Frame, face: Aligned, made: Floats, mask: Floats, good: Outcome, bad: Outcome, *, redone: bool
) -> Done:
    weight = lay_back(frame, face, made, mask)
    if weight is None:
        return bad, None
    return (good if weight.any() else Outcome.COVERED), Patch(face.box, weight, redone)
