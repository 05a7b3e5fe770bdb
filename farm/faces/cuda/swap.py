"""The neural swap of a batch of frames: crops of all faces, the network over full batches, colours, paste."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from farm.errors import RecipeError
from farm.faces.cuda.backend import Array, Kernels
from farm.faces.cuda.crop import Packing, crop_plan
from farm.faces.cuda.look import similarities
from farm.faces.cuda.paste import paste_plan
from farm.faces.cuda.surface import Floats, Surface
from farm.faces.cuda.yunet import MOST
from farm.faces.neural_masks import box_mask
from farm.inference.buckets import Buckets
from farm.inference.spec import ModelSpec
from farm.inference.templates import template


@dataclass(frozen=True, slots=True)
class SwapSettings:
    """side: of the crop, a whole multiple of the network's (pixel boost); 0 for the network's own. strength: of the
    colour match, 0..1. blur: of the box mask's edge, as `box_mask`.
    """

    side: int = 0
    strength: float = 0.5
    blur: float = 0.3


@dataclass(frozen=True, slots=True)
class Faces:
    """What is to be swapped in a batch: `frame_of` int32[n], rising; `five` (n, 5, 2); `source` float32[n, k]."""

    frame_of: NDArray[np.int32]
    five: NDArray[np.float64]
    source: Floats

    def __len__(self) -> int:
        return len(self.frame_of)

    def part(self, first: int, last: int) -> Faces:
        return Faces(self.frame_of[first:last], self.five[first:last], self.source[first:last])


class SwapStep:
    """One swapper over frames of one surface. All faces of a frame are cut out before the first is laid back.

    `network` needs room for the pictures of one frame: at least `pictures_needed`.
    """

    def __init__(
        self,
        kernels: Kernels,
        surface: Surface,
        network: Buckets,
        spec: ModelSpec,
        settings: SwapSettings | None = None,
    ) -> None:
        settings = settings or SwapSettings()
        self._kernels, self._surface, self._network = kernels, surface, network
        target, output = spec.input("target"), next(t for t in spec.outputs if t.kind == "image")
        self._side = settings.side or target.size
        self._phases, rest = divmod(self._side, target.size)
        if rest or target.layout != "NCHW" or output.layout != "NCHW":
            raise RecipeError(
                f"It cannot make crops of {self._side} px on the card.",
                where=f"model {spec.name}",
                do=f"Use a multiple of {target.size}, or the CPU path.",
            )
        self._strength = settings.strength
        self._packing, self._unpacking = Packing.of(target), Packing.of(output)
        self._template = template(target.template, self._side)
        self._names = (target.in_graph, spec.input("source").in_graph, output.in_graph)
        self._given, self._told, self._made = (network.arrays[name] for name in self._names)
        self._capacity = network.capacity // self._phases**2
        self._table = kernels.empty((self._capacity, 8), np.float32)
        mask = box_mask(self._side, blur=settings.blur)[0]
        self._mask = kernels.empty(mask.shape, np.float32)
        kernels.upload(mask, self._mask)

    @staticmethod
    def pictures_needed(spec: ModelSpec, settings: SwapSettings) -> int:
        """Pictures that one frame may ask of the network at once."""
        side = spec.input("target").size
        return MOST * ((settings.side or side) // side) ** 2

    def apply(self, frames: Array, faces: Faces) -> None:
        """Swap in place; on a card the work is only asked for when this returns."""
        start = 0
        while start < len(faces):
            stop = _whole_frames(faces.frame_of, start, self._capacity)
            self._group(frames, faces.part(start, stop))
            start = stop

    def _group(self, frames: Array, faces: Faces) -> None:
        boost = self._phases**2
        to_frame = similarities(self._template, faces.five)
        self._kernels.crop(
            frames,
            self._surface,
            crop_plan(faces.frame_of, to_frame),
            self._packing,
            self._given,
            side=self._side,
            phases=self._phases,
        )
        self._kernels.upload(np.repeat(faces.source, boost, axis=0).astype(self._told.dtype), self._told)
        self._network.run(len(faces) * boost)
        count = len(faces)
        self._kernels.match(
            self._given,
            self._made,
            count,
            self._packing,
            self._unpacking,
            self._mask,
            self._phases,
            strength=self._strength,
            out=self._table,
        )
        plan = paste_plan(self._surface, faces.frame_of, to_frame, self._side)
        self._kernels.paste(
            frames, self._surface, plan, self._made, self._unpacking, self._mask, self._table, phases=self._phases
        )


def _whole_frames(frame_of: NDArray[np.int32], start: int, capacity: int) -> int:
    """The end of the longest run from `start` with at most `capacity` faces that splits no frame."""
    stop = min(len(frame_of), start + capacity)
    while stop < len(frame_of) and stop > start and frame_of[stop] == frame_of[stop - 1]:
        stop -= 1
    return stop
