"""Faces of a batch cut out, put through a network and laid back: what swappers and restorers have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from farm.errors import RecipeError
from farm.faces.cuda.backend import Array, Kernels, Later
from farm.faces.cuda.crop import Packing, crop_plan
from farm.faces.cuda.paste import PastePlan, paste_plan, woven
from farm.faces.cuda.places import similarities
from farm.faces.cuda.surface import Floats, Surface
from farm.faces.neural_masks import box_mask
from farm.inference.buckets import Buckets
from farm.inference.spec import Tensor
from farm.inference.templates import template

Percent = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class Faces:
    """What is to be swapped in a batch, n faces.

    frame_of: int32[n], rising. five: (n, 5, 2). source: float32[n, k]. strength: float32[n], 0..1. special: bool[n],
    whose mask is more than the box.
    """

    frame_of: NDArray[np.int32]
    five: NDArray[np.float64]
    source: Floats
    strength: Floats
    special: NDArray[np.bool_]

    @classmethod
    def plain(cls, frame_of: NDArray[np.int32], five: NDArray[np.float64], source: Floats) -> Faces:
        """All of them in full strength, under the box mask alone."""
        return cls(frame_of, five, source, np.ones(len(frame_of), np.float32), np.zeros(len(frame_of), bool))

    def __len__(self) -> int:
        return len(self.frame_of)

    def part(self, first: int, last: int) -> Faces:
        some = np.s_[first:last]
        return Faces(self.frame_of[some], self.five[some], self.source[some], self.strength[some], self.special[some])


Cover = Callable[[int, NDArray[np.float64], Callable[[], Floats]], Floats]
"""The mask (side, side) of a special face: its number among all given, the map from its crop to the frame (2, 3), and
what gives the crop itself, RGB 0..1 (side, side, 3)."""


@dataclass(frozen=True, slots=True)
class Laid:
    """What is being laid where: plans with their masks, and the tables that say how it went."""

    plans: tuple[tuple[PastePlan, Floats], ...]
    tables: tuple[Later, ...]

    def usable(self) -> NDArray[np.bool_]:
        """bool[n], whether the network's picture could be used; waits until all is laid. To be called once."""
        return np.concatenate([np.zeros(0, bool), *(table() > 0 for table in self.tables)])


@dataclass(frozen=True, slots=True)
class Ends:
    """The pictures that a network takes and gives: their contracts, and their names in its arrays."""

    given: Tensor
    made: Tensor
    given_name: str
    made_name: str


class CropStep(ABC):
    """One network over faces of one surface. All faces of a group are cut out before the first is laid back.

    side: of the crops, a whole multiple of the network's. blur, padding: of the box mask's edge, as `box_mask`.
    """

    def __init__(
        self,
        kernels: Kernels,
        surface: Surface,
        network: Buckets,
        ends: Ends,
        where: str,
        *,
        side: int,
        blur: float,
        padding: Percent,
    ) -> None:
        self._kernels, self._surface, self._network = kernels, surface, network
        self._side = side
        self._phases, rest = divmod(side, ends.given.size)
        if rest or ends.given.layout != "NCHW" or ends.made.layout != "NCHW":
            raise RecipeError(
                f"It cannot make crops of {side} px on the card.",
                where=where,
                do=f"Use a multiple of {ends.given.size}, or the CPU path.",
            )
        self._packing, self._unpacking = Packing.of(ends.given), Packing.of(ends.made)
        self._template = template(ends.given.template, side)
        self._given, self._made = network.arrays[ends.given_name], network.arrays[ends.made_name]
        self._capacity = network.capacity // self._phases**2
        self._table = kernels.empty((self._capacity,), np.float32)
        self._box = box_mask(side, blur=blur, padding=padding)
        self._masks = kernels.empty(self._box.shape, np.float32)
        kernels.upload(self._box, self._masks)
        self._many: Array | None = None

    @abstractmethod
    def _run(self, faces: Faces, plan: PastePlan, masks: Array) -> tuple[Array, Packing]:
        """Run the network on the crops; the pictures that are to be laid and how they are packed.

        `self._table` says afterwards which are usable.
        """

    @property
    def side(self) -> int:
        return self._side

    def lay(self, frames: Array, faces: Faces, cover: Cover | None = None) -> Laid:
        """Change in place; on a card the work is only asked for when this returns, but for masks of special faces.

        cover: makes those; needed where `faces` has any.
        """
        plans: list[tuple[PastePlan, Floats]] = []
        tables: list[Later] = []
        for start, stop in self._groups(faces):
            part = faces.part(start, stop)
            masks, mask_of = self._box, np.zeros(len(part), np.int32)
            to_frame = self._crop(frames, part)
            if cover is not None and part.special.any():
                masks, mask_of = self._covered(part, start, to_frame, cover)
            plan = paste_plan(
                self._surface, part.frame_of, to_frame, self._side, mask_of=mask_of, strength=part.strength
            )
            tables.append(self._laid(frames, part, plan, self._on_device(masks)))
            plans.append((plan, masks))
        return Laid(tuple(plans), tuple(tables))

    def _groups(self, faces: Faces) -> list[tuple[int, int]]:
        groups, start = [], 0
        while start < len(faces):
            stop = _whole_frames(faces.frame_of, start, self._capacity)
            groups.append((start, stop))
            start = stop
        return groups

    def _crop(self, frames: Array, faces: Faces) -> NDArray[np.float64]:
        """Cut all faces out; the maps from crop to frame (n, 2, 3)."""
        to_frame = similarities(self._template, faces.five)
        plan = crop_plan(faces.frame_of, to_frame)
        self._kernels.crop(
            frames, self._surface, plan, self._packing, self._given, side=self._side, phases=self._phases
        )
        return to_frame

    def _laid(self, frames: Array, faces: Faces, plan: PastePlan, masks: Array) -> Later:
        """Run the network and paste; what is usable (n,), there when all of it is done."""
        pictures, packing = self._run(faces, plan, masks)
        self._kernels.paste(frames, self._surface, plan, pictures, packing, masks, self._table, phases=self._phases)
        return self._kernels.later(self._table[: len(faces)])

    def _covered(
        self, faces: Faces, first: int, to_frame: NDArray[np.float64], cover: Cover
    ) -> tuple[Floats, NDArray[np.int32]]:
        """The box mask and those of special faces (k, side, side), and which counts for which face."""
        masks, mask_of = [self._box[0]], np.zeros(len(faces), np.int32)
        for place in np.flatnonzero(faces.special):
            mask_of[place] = len(masks)
            masks.append(cover(first + int(place), to_frame[place], partial(self._seen, int(place))))
        return np.stack(masks), mask_of

    def _seen(self, place: int) -> Floats:
        """One crop as RGB 0..1 (side, side, 3), as the network is given it."""
        boost = self._phases**2
        given = self._kernels.download(self._given[place * boost : (place + 1) * boost])
        rgb = (woven(given, self._phases) - self._packing.pack[3:]) / self._packing.pack[:3]
        return np.ascontiguousarray(rgb[..., :: self._packing.turn], np.float32)

    def _on_device(self, masks: Floats) -> Array:
        if len(masks) == 1:
            return self._masks
        if self._many is None:
            self._many = self._kernels.empty((self._capacity + 1, self._side, self._side), np.float32)
        self._kernels.upload(masks, self._many)
        return self._many


def _whole_frames(frame_of: NDArray[np.int32], start: int, capacity: int) -> int:
    """The end of the longest run from `start` with at most `capacity` faces that splits no frame."""
    stop = min(len(frame_of), start + capacity)
    while stop < len(frame_of) and stop > start and frame_of[stop] == frame_of[stop - 1]:
        stop -= 1
    return stop
