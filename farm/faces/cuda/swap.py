"""The neural swap of a batch of frames: crops of all faces, the network over full batches, colours, masks, paste."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from farm.faces.cuda.backend import Array, Kernels
from farm.faces.cuda.crop import Packing
from farm.faces.cuda.crop_step import CropStep, Ends, Faces, Percent
from farm.faces.cuda.paste import PastePlan
from farm.faces.cuda.surface import Surface
from farm.faces.cuda.yunet import MOST
from farm.inference.buckets import Buckets
from farm.inference.spec import ModelSpec


@dataclass(frozen=True, slots=True)
class SwapSettings:
    """side: of the crop, a whole multiple of the network's (pixel boost); 0 for the network's own. colour: share of
    the match in Lab, 0..1. blur, padding: of the box mask's edge, as `box_mask`.
    """

    side: int = 0
    colour: float = 0.0
    blur: float = 0.3
    padding: Percent = (0, 0, 0, 0)


class SwapStep(CropStep):
    """One swapper. `network` needs room for the pictures of one frame: at least `pictures_needed`."""

    def __init__(
        self,
        kernels: Kernels,
        surface: Surface,
        network: Buckets,
        spec: ModelSpec,
        settings: SwapSettings | None = None,
    ) -> None:
        settings = settings or SwapSettings()
        target, output = spec.input("target"), next(t for t in spec.outputs if t.kind == "image")
        super().__init__(
            kernels,
            surface,
            network,
            Ends(target, output, target.in_graph, output.in_graph),
            f"model {spec.name}",
            side=settings.side or target.size,
            blur=settings.blur,
            padding=settings.padding,
        )
        self._told = network.arrays[spec.input("source").in_graph]
        self._colour = settings.colour

    @staticmethod
    def pictures_needed(spec: ModelSpec, settings: SwapSettings) -> int:
        """Pictures that one frame may ask of the network at once."""
        side = spec.input("target").size
        return MOST * ((settings.side or side) // side) ** 2

    def _run(self, faces: Faces, plan: PastePlan, masks: Array) -> tuple[Array, Packing]:
        """Run the network and match the colours."""
        boost, count = self._phases**2, len(faces)
        self._kernels.upload(np.repeat(faces.source, boost, axis=0).astype(self._told.dtype), self._told)
        self._network.run(count * boost)
        self._kernels.usable(self._made, count, self._unpacking, self._masks[0], self._phases, out=self._table)
        if self._colour:
            self._kernels.recolour(
                self._given,
                self._made,
                self._packing,
                self._unpacking,
                masks,
                plan,
                self._phases,
                share=self._colour,
            )
        return self._made, self._unpacking
