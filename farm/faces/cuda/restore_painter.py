"""A restorer behind a swapper, or alone, for batches on the device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from farm.faces.cuda.analyst import CardAnalyst, CardBatch
from farm.faces.cuda.backend import Kernels
from farm.faces.cuda.crop_step import Laid
from farm.faces.cuda.networks import CardNetworks
from farm.faces.cuda.overlay import Overlay
from farm.faces.cuda.painter import Crops, Painted, Planned, mattes, shapeless
from farm.faces.cuda.restore import RestoreShares, RestoreStep
from farm.faces.cuda.surface import Surface
from farm.faces.light import target_of
from farm.faces.neural_cover import Cover
from farm.faces.neural_processors import FaceRestore
from farm.faces.neural_settings import RestoreSettings
from farm.faces.neural_source import Loads
from farm.faces.report import FaceReport, Outcome
from farm.faces.roles import by_distance
from farm.faces.target import Target


class Painter(Protocol):
    """A swapper and the label, in two steps: see `CardPainter`."""

    def begin(self, batch: CardBatch, planned: Sequence[Sequence[Planned]]) -> Any: ...
    def finish(self, begun: Any, kernels: Kernels) -> Painted: ...


@dataclass(frozen=True, slots=True)
class _Job:
    """One face that is to be restored, and its report's place in its frame."""

    place: int
    row: int
    target: Target


@dataclass(slots=True)
class _Begun:
    """A batch that is being restored: what the swapper did, and, by number of the job, whose masks left nothing."""

    batch: CardBatch
    swapped: Painted
    jobs: list[_Job]
    laid: Laid | None
    covered: set[int]


class RestorePainter:
    """Restores what `swapper` put in, or, without one, every face that is not to be left alone; then the label.

    swapper: lays no label of its own. What was swapped stays swapped, whether the restorer suits it or not.
    """

    def __init__(
        self,
        swapper: Painter | None,
        networks: CardNetworks,
        surface: Surface,
        models: Loads,
        model: str,
        settings: RestoreSettings,
        analyst: CardAnalyst,
        overlay: Overlay | None,
        *,
        matte: bool,
    ) -> None:
        self._swapper, self._networks, self._surface = swapper, networks, surface
        self._models, self._model, self._settings = models, model, settings
        self._analyst, self._overlay, self._matte = analyst, overlay, matte
        opened, mask = networks.restorer, settings.mask
        self._step = RestoreStep(
            networks.hand.kernels,
            surface,
            opened.buckets,
            opened.spec,
            RestoreShares.of(opened.spec, settings),
            blur=mask.box_blur,
            padding=mask.padding,
        )
        self._cover = Cover(models, mask)

    def begin(self, batch: CardBatch, planned: Sequence[Sequence[Planned]]) -> _Begun:
        """Swap, wait for that, and ask for the restoring; in the thread of `CardNetworks.hand`."""
        kernels = self._networks.hand.kernels
        if self._swapper is None:
            swapped = Painted([_reports(faces) for faces in planned], {})
        else:
            swapped = self._swapper.finish(self._swapper.begin(batch, planned), kernels)
            # Whoever fetches a frame for its masks does so on another stream.
            kernels.wait()
        jobs = [job for place, faces in enumerate(planned) for job in self._wanted(swapped, place, faces)]
        begun = _Begun(batch, swapped, jobs, None, set())
        if jobs:
            crops = Crops(self._step, self._cover, self._analyst)
            nobody, whole = np.zeros((len(jobs), 0), np.float32), np.ones(len(jobs), np.float32)
            begun.laid, begun.covered = crops.lay(batch, jobs, nobody, whole)
        return begun

    def finish(self, begun: _Begun, kernels: Kernels) -> Painted:
        """Wait for that, mend what failed, and ask `kernels` for the label; the frames are done when they are."""
        done = begun.swapped
        if begun.laid is not None:
            usable = begun.laid.usable()
            for number, job in enumerate(begun.jobs):
                if not usable[number]:
                    self._by_hand(begun.batch, job, done, kernels)
                elif number in begun.covered:
                    self._say(done, job, Outcome.COVERED)
            if self._matte:
                for place, matte in mattes(begun.laid, usable, self._surface).items():
                    done.masks[place] = np.maximum(done.masks.get(place, matte), matte)
        if self._overlay is not None:
            kernels.overlay(begun.batch.array, self._surface, len(begun.batch), self._overlay)
        return done

    def _wanted(self, swapped: Painted, place: int, planned: Sequence[Planned]) -> list[_Job]:
        """The faces of a frame that are to be restored: those that are changed already, or would be by this alone."""
        known, jobs = {id(one.face): one for one in planned}, []
        for row, face in enumerate(by_distance(one.face for one in planned)):
            if swapped.reports[place][row].outcome not in (Outcome.SWAPPED, Outcome.RESTORED):
                continue
            target = target_of(face.track, list(known[id(face)].hands), face.rest)
            job = _Job(place, row, target)
            if target.size < self._settings.smallest or shapeless(target):
                self._say(swapped, job, Outcome.TOO_SMALL)
            else:
                jobs.append(job)
        return jobs

    def _by_hand(self, batch: CardBatch, job: _Job, done: Painted, kernels: Kernels) -> None:
        """A face whose picture could not be used, on the processor: there it is tried in full precision."""
        frame = self._analyst.fetched(batch, job.place)
        outcome, patch = FaceRestore(self._models, self._model, self._settings).apply(frame, job.target)
        kernels.upload(self._surface.packed(frame), batch.array[job.place : job.place + 1])
        self._say(done, job, outcome, redone=patch is not None)

    def _say(self, done: Painted, job: _Job, outcome: Outcome, *, redone: bool = False) -> None:
        reports = done.reports[job.place]
        update: dict[str, object] = {"redone": redone or reports[job.row].redone}
        if self._swapper is None or outcome is Outcome.NOT_RESTORED:
            update["outcome"] = outcome
        reports[job.row] = reports[job.row].model_copy(update=update)


def _reports(planned: Sequence[Planned]) -> list[FaceReport]:
    """Of the faces of a frame, as if all were restored that are not refused."""
    return [face.report(face.refused or Outcome.RESTORED) for face in by_distance(one.face for one in planned)]
