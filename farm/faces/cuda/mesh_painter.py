"""What was decided of the faces of a batch, painted by mesh-warp into its frames on the device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from farm.faces.bankpath import Shares
from farm.faces.cuda.analyst import CardAnalyst, CardBatch
from farm.faces.cuda.backend import Kernels
from farm.faces.cuda.mesh_plan import MeshFace, mesh_face
from farm.faces.cuda.mesh_step import Laid, MeshStep
from farm.faces.cuda.networks import CardNetworks
from farm.faces.cuda.overlay import Overlay
from farm.faces.cuda.painter import Painted, Planned
from farm.faces.cuda.surface import Surface
from farm.faces.identity import PreparedIdentity
from farm.faces.light import target_of
from farm.faces.meshwarp import SwapSettings, strength_of
from farm.faces.pipeline import joined
from farm.faces.processors import MeshWarpSwap
from farm.faces.report import FaceReport, Outcome
from farm.faces.roles import by_distance
from farm.faces.target import Target
from farm.media.colour import region_to_rgb


@dataclass(slots=True)
class _Begun:
    """A batch that is being painted: what became of each face, and the mattes where they are wanted."""

    batch: CardBatch
    reports: list[list[FaceReport]] = field(default_factory=list)
    masks: dict[int, NDArray[np.uint8]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Job:
    """One face that is to be painted, and its report's place in its frame; `turn` counts those of one frame."""

    place: int
    row: int
    turn: int
    target: Target
    identity: PreparedIdentity
    shares: Shares | None


class MeshPainter:
    """The bundled swapper and the label, for batches of one surface.

    Faces of one frame are painted one after the other, farther ones first, as the processor paints them.
    """

    def __init__(
        self,
        networks: CardNetworks,
        surface: Surface,
        settings: SwapSettings,
        analyst: CardAnalyst,
        overlay: Overlay | None,
        *,
        matte: bool,
    ) -> None:
        self._surface, self._settings, self._analyst = surface, settings, analyst
        self._overlay, self._matte = overlay, matte
        self._swap = MeshWarpSwap(settings)
        self._step = MeshStep(networks.hand.mesh, surface, settings)

    def begin(self, batch: CardBatch, planned: Sequence[Sequence[Planned]]) -> _Begun:
        """Paint every frame of the batch, in place; in the thread of `CardNetworks.hand`."""
        begun = _Begun(batch)
        jobs = [job for place, faces in enumerate(planned) for job in self._wanted(begun, place, faces)]
        for turn in range(max((job.turn for job in jobs), default=-1) + 1):
            some = [job for job in jobs if job.turn == turn]
            # In one thread: these are many small steps, for which several would wait for the interpreter's lock.
            faces = [self._face(batch, job) for job in some]
            told = self._step.lay(batch.array, faces, masks=self._matte)
            for job, face, laid in zip(some, faces, told, strict=True):
                self._note(begun, job, face, laid)
        return begun

    def finish(self, begun: _Begun, kernels: Kernels) -> Painted:
        """Ask `kernels` for the label; the frames are done when it is."""
        if self._overlay is not None:
            kernels.overlay(begun.batch.array, self._surface, len(begun.batch), self._overlay)
        return Painted(begun.reports, begun.masks)

    def _wanted(self, begun: _Begun, place: int, planned: Sequence[Planned]) -> Iterator[_Job]:
        """The faces of a frame that are to be painted; `begun` gets the reports of all."""
        known, reports, turn = {id(one.face): one for one in planned}, [], 0
        for row, face in enumerate(by_distance(one.face for one in planned)):
            outcome, one = face.refused, known[id(face)]
            if outcome is None and one.identity is None:
                outcome = Outcome.NOT_MAPPED
            if outcome is None and one.identity is not None:
                target = target_of(face.track, list(one.hands), face.rest)
                outcome = self._swap.refused(target)
                if outcome is None and strength_of(target, self._settings) == 0:
                    outcome = Outcome.FAILED
                if outcome is None:
                    shares = self._swap.shares(target, one.identity, face.identity or "")
                    yield _Job(place, row, turn, target, one.identity, shares)
                    turn += 1
            reports.append(face.report(outcome or Outcome.SWAPPED))
        begun.reports.append(reports)

    def _face(self, batch: CardBatch, job: _Job) -> MeshFace:
        def seen(box: tuple[int, int, int, int]) -> NDArray[np.float32]:
            return region_to_rgb(self._analyst.fetched(batch, job.place), box)

        plate = self._surface.planar
        return mesh_face(job.place, plate, job.target, job.identity, job.shares, self._settings, seen)

    def _note(self, begun: _Begun, job: _Job, face: MeshFace, laid: Laid) -> None:
        if laid.mask is not None and laid.usable:
            held = begun.masks.get(job.place)
            begun.masks[job.place] = joined(held, laid.mask, face.box, self._surface.planar)
        if not (laid.usable and laid.changed):
            reports = begun.reports[job.place]
            outcome = Outcome.COVERED if laid.usable else Outcome.FAILED
            reports[job.row] = reports[job.row].model_copy(update={"outcome": outcome})
