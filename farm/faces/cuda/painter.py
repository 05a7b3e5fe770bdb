"""What was decided of the faces of a batch, painted into its frames on the device: asked first, waited for later."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

from farm.faces.cuda.analyst import CardAnalyst, CardBatch
from farm.faces.cuda.backend import Kernels
from farm.faces.cuda.crop_step import CropStep, Faces, Laid
from farm.faces.cuda.networks import CardNetworks
from farm.faces.cuda.overlay import Overlay
from farm.faces.cuda.paste import weights
from farm.faces.cuda.surface import Surface
from farm.faces.cuda.swap import SwapSettings, SwapStep
from farm.faces.geometry import Affine, apply, compose, five_points, invert
from farm.faces.hands import Hand
from farm.faces.identity import PreparedIdentity
from farm.faces.light import target_of
from farm.faces.meshwarp import SwapSettings as PoseSettings
from farm.faces.meshwarp import believable
from farm.faces.neural_align import Box, warped
from farm.faces.neural_cover import Cover
from farm.faces.neural_identity import prepared_source, source_key
from farm.faces.neural_processors import NeuralSwap
from farm.faces.neural_settings import NeuralSwapSettings
from farm.faces.neural_source import Loads
from farm.faces.neural_swap import open_swapper
from farm.faces.report import FaceReport, Outcome
from farm.faces.roles import Face, by_distance
from farm.faces.sharpness import clear_enough
from farm.faces.target import Target
from farm.media.colour import region_to_rgb
from farm.media.frame import Frame
from farm.media.tonemap import Floats


@dataclass(frozen=True, slots=True)
class Planned:
    """A face with the hands near it, and who is put in (None: it stays as it is)."""

    face: Face
    hands: tuple[Hand, ...]
    identity: PreparedIdentity | None


@dataclass(frozen=True, slots=True)
class Painted:
    """By place in the batch: what became of each face, and the matte (uint8[h, w]) where one was wanted."""

    reports: list[list[FaceReport]]
    masks: dict[int, NDArray[np.uint8]]


@dataclass(slots=True)
class Begun:
    """A batch that is being painted: what was decided, and, by number of the job, whose masks left nothing."""

    batch: CardBatch
    reports: list[list[FaceReport]]
    jobs: list[_Job]
    laid: Laid | None
    covered: set[int]


@dataclass(slots=True)
class _Job:
    """One face that is to be swapped: where, how much, and its report's place in its frame."""

    place: int
    row: int
    name: str
    identity: PreparedIdentity
    target: Target
    strength: float


class Job(Protocol):
    """A face that is to be painted: its place in the batch, and what is known of it."""

    @property
    def place(self) -> int: ...
    @property
    def target(self) -> Target: ...


@dataclass(frozen=True, slots=True)
class Crops:
    """A network over crops of a batch, and whose masks it is laid under."""

    step: CropStep
    masks: Cover
    analyst: CardAnalyst

    def lay(self, batch: CardBatch, jobs: Sequence[Job], source: Floats, strength: Floats) -> tuple[Laid, set[int]]:
        """Ask for the crops of all jobs; what is laid, and the numbers of those whose masks leave nothing."""
        covered: set[int] = set()
        faces = Faces(
            np.array([job.place for job in jobs], np.int32),
            np.stack([five_points(job.target.points) for job in jobs]),
            source,
            strength,
            np.array([not self.masks.is_plain(job.target) for job in jobs]),
        )

        def cover(number: int, to_frame: Affine, seen: Callable[[], Floats]) -> Floats:
            job = jobs[number]
            mask = self.masks.of(CardCrop(self.analyst, batch, job.place, to_frame, self.step.side, seen), job.target)
            if not mask.any():
                covered.add(number)
            return mask

        return self.step.lay(batch.array, faces, cover), covered


class CardPainter:
    """One neural swapper, the masks and the label, for batches of one surface."""

    def __init__(
        self,
        networks: CardNetworks,
        surface: Surface,
        models: Loads,
        model: str,
        settings: NeuralSwapSettings,
        analyst: CardAnalyst,
        overlay: Overlay | None,
        *,
        matte: bool,
    ) -> None:
        self._surface, self._models = surface, models
        self._model, self._settings, self._analyst = model, settings, analyst
        self._overlay, self._matte = overlay, matte
        swapper = networks.swapper
        side = swapper.spec.input("target").size
        self._step = SwapStep(
            networks.hand.kernels, surface, swapper.buckets, swapper.spec, step_settings(settings, side)
        )
        self._spec = swapper.spec
        self._cover = Cover(models, settings.mask)
        self._pose = PoseSettings(max_yaw=settings.max_yaw, max_pitch=settings.max_pitch)
        self._sources: dict[str, Floats] = {}

    def begin(self, batch: CardBatch, planned: Sequence[Sequence[Planned]]) -> Begun:
        """Ask for the swap of every frame of the batch, in place; in the thread of `CardNetworks.hand`."""
        begun = Begun(batch, [], [], None, set())
        for place, faces in enumerate(planned):
            known = {id(one.face): one for one in faces}
            reports = []
            for row, face in enumerate(by_distance(one.face for one in faces)):
                outcome = face.refused
                if outcome is None:
                    outcome, job = self._wanted(place, row, known[id(face)])
                    begun.jobs += [job] if job is not None else []
                reports.append(face.report(outcome))
            begun.reports.append(reports)
        if begun.jobs:
            source = np.concatenate([self._source(job) for job in begun.jobs])
            strength = np.array([job.strength for job in begun.jobs], np.float32)
            crops = Crops(self._step, self._cover, self._analyst)
            begun.laid, begun.covered = crops.lay(batch, begun.jobs, source, strength)
        return begun

    def finish(self, begun: Begun, kernels: Kernels) -> Painted:
        """Wait for that, mend what failed, and ask `kernels` for the label; the frames are done when they are."""
        done = Painted(begun.reports, {})
        if begun.laid is not None:
            self._settle(begun, begun.laid, done, kernels)
        if self._overlay is not None:
            kernels.overlay(begun.batch.array, self._surface, len(begun.batch), self._overlay)
        return done

    def _wanted(self, place: int, row: int, planned: Planned) -> tuple[Outcome, _Job | None]:
        """SWAPPED with what is to be done, or why nothing is; the same conditions as `NeuralSwap.apply`."""
        target = target_of(planned.face.track, list(planned.hands), planned.face.rest)
        if planned.identity is None:
            return Outcome.NOT_MAPPED, None
        if target.size < self._settings.smallest or shapeless(target):
            return Outcome.TOO_SMALL, None
        clear = clear_enough(target.sharpness, self._settings.min_sharpness)
        if clear <= 0:
            return Outcome.TOO_BLURRED, None
        strength = self._settings.strength * believable(target.pose, self._pose) * clear
        if strength <= 0:
            return Outcome.TOO_SIDEWAYS, None
        return Outcome.SWAPPED, _Job(place, row, planned.face.identity or "", planned.identity, target, strength)

    def _settle(self, begun: Begun, laid: Laid, done: Painted, kernels: Kernels) -> None:
        usable = laid.usable()
        for number, job in enumerate(begun.jobs):
            if usable[number] and number not in begun.covered:
                continue
            outcome, redone = Outcome.COVERED, False
            if not usable[number]:
                outcome, redone = self._by_hand(begun.batch, job, kernels)
            reports = done.reports[job.place]
            reports[job.row] = reports[job.row].model_copy(update={"outcome": outcome, "redone": redone})
        if self._matte:
            done.masks.update(mattes(laid, usable, self._surface))

    def _by_hand(self, batch: CardBatch, job: _Job, kernels: Kernels) -> tuple[Outcome, bool]:
        """A face whose picture could not be used, on the processor: there it is tried in full precision.

        What became of it, and whether it was made again.
        """
        frame = self._analyst.fetched(batch, job.place)
        swap = NeuralSwap(self._models, self._model, self._settings)
        outcome, patch = swap.apply(frame, job.target, job.identity, job.name)
        kernels.upload(self._surface.packed(frame), batch.array[job.place : job.place + 1])
        return outcome, patch is not None

    def _source(self, job: _Job) -> Floats:
        if job.name not in self._sources:
            key = source_key(self._spec, self._settings.precision)
            kept = job.identity.sources.get(key)
            if kept is None:
                swapper = open_swapper(self._models, self._spec, precision=self._settings.precision)
                kept = prepared_source(job.identity, swapper, self._spec, self._models, key)
            self._sources[job.name] = np.asarray(kept, np.float32).reshape(1, -1)
        return self._sources[job.name]


def shapeless(target: Target) -> bool:
    """Whether the face's points are no face's, as `neural_align.aligned` judges them."""
    five = five_points(target.points)
    return not np.isfinite(five).all() or float(np.ptp(five, axis=0).max()) < 1


def mattes(laid: Laid, usable: NDArray[np.bool_], surface: Surface) -> dict[int, NDArray[np.uint8]]:
    """By place in the batch, where usable faces were laid: uint8[h, w], 0 for untouched."""
    found: dict[int, NDArray[np.uint8]] = {}
    number = 0
    for plan, masks in laid.plans:
        for index in range(len(plan)):
            if usable[number]:
                place = int(plan.frame_of[index])
                whole = found.setdefault(place, np.zeros((surface.height, surface.width), np.uint8))
                (left, top, right, bottom), weight = weights(plan, index, masks)
                # Any change at all counts as 1, so that 0 means untouched.
                level = np.where(weight > 0, np.maximum(1, np.round(weight * 255)), 0).astype(np.uint8)
                whole[top:bottom, left:right] = np.maximum(whole[top:bottom, left:right], level)
            number += 1
    return found


def step_settings(settings: NeuralSwapSettings, side: int) -> SwapSettings:
    """A recipe's settings for a swapper of `side` px, as the step on the device takes them."""
    mask = settings.mask
    return SwapSettings(side=side * settings.boost, colour=settings.colour, blur=mask.box_blur, padding=mask.padding)


class CardCrop:
    """A crop on the device as masks ask for it (`neural_cover.Crop`): fetched only as far as somebody looks."""

    def __init__(
        self,
        analyst: CardAnalyst,
        batch: CardBatch,
        place: int,
        to_frame: Affine,
        side: int,
        seen: Callable[[], Floats],
    ) -> None:
        self._analyst, self._batch, self._place = analyst, batch, place
        self._to_crop = invert(to_frame)
        self._to_frame, self.side, self._seen = to_frame, side, seen

    @cached_property
    def seen(self) -> Floats:
        return self._seen()

    @cached_property
    def _frame(self) -> Frame:
        return self._analyst.fetched(self._batch, self._place)

    @cached_property
    def box(self) -> Box:
        corners = apply(
            self._to_frame, np.array([[0, 0], [self.side, 0], [0, self.side], [self.side, self.side]]) - 0.5
        )
        low, high = np.floor(corners.min(axis=0)) - 1, np.ceil(corners.max(axis=0)) + 2
        x0, y0 = (int(max(0, v)) for v in low)
        return x0, y0, int(min(self._frame.width, high[0])), int(min(self._frame.height, high[1]))

    @cached_property
    def region(self) -> Floats:
        return region_to_rgb(self._frame, self.box)

    def to_crop(self, points: NDArray[np.floating]) -> NDArray[np.float64]:
        return apply(self._to_crop, np.asarray(points, np.float64)[:, :2])

    def from_region(self, values: Floats) -> Floats:
        affine = compose(self._to_crop, np.array([[1, 0, self.box[0]], [0, 1, self.box[1]]], np.float64))
        return warped(values, affine, (self.side, self.side), border=cv2.BORDER_CONSTANT)
