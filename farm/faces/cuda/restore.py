"""Restored faces of a batch: crops, the network, the crop mixed in, masks, paste."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from farm.faces.cuda import mix
from farm.faces.cuda.backend import Array, Kernels
from farm.faces.cuda.crop import Packing
from farm.faces.cuda.crop_step import CropStep, Ends, Faces, Percent
from farm.faces.cuda.paste import PastePlan
from farm.faces.cuda.surface import Surface
from farm.faces.neural_settings import RestoreSettings
from farm.inference.buckets import Buckets
from farm.inference.session import graph_names
from farm.inference.spec import ModelSpec

ROOM = 4
"""Crops in the restorer's arrays at a time; each is run alone, as on the processor: many exports know no batches."""


@dataclass(frozen=True, slots=True)
class RestoreShares:
    """blend: how much of the restored crop is mixed in. fidelity: for models with such an input. Both 0..1."""

    blend: float
    fidelity: float

    @classmethod
    def of(cls, spec: ModelSpec, settings: RestoreSettings) -> RestoreShares:
        """What the recipe asks for, or the catalogue's own."""
        blend, fidelity = settings.blend, settings.fidelity
        return cls(
            float(spec.settings.get("blend", 1.0)) if blend is None else blend,
            float(spec.settings.get("weight", 0.5)) if fidelity is None else fidelity,
        )


class RestoreStep(CropStep):
    """One restorer. Faces of a frame are restored in the order given, `ROOM` at a time."""

    def __init__(
        self,
        kernels: Kernels,
        surface: Surface,
        network: Buckets,
        spec: ModelSpec,
        shares: RestoreShares,
        *,
        blur: float,
        padding: Percent,
    ) -> None:
        inputs, outputs = graph_names(spec, network.inputs, network.outputs)
        given = next(tensor for tensor in spec.inputs if tensor.kind == "image")
        made = next(tensor for tensor in spec.outputs if tensor.kind == "image")
        ends = Ends(given, made, inputs[given.name], outputs[made.name])
        super().__init__(
            kernels, surface, network, ends, f"model {spec.name}", side=given.size, blur=blur, padding=padding
        )
        self._blend = shares.blend
        self._mixed = kernels.empty((self._capacity, 3, given.size, given.size), np.float32)
        for tensor in spec.inputs:
            if tensor.kind == "weight" and tensor.name in inputs:
                told = network.arrays[inputs[tensor.name]]
                kernels.upload(np.full(told.shape, shares.fidelity, told.dtype), told)

    def _groups(self, faces: Faces) -> list[tuple[int, int]]:
        return [(start, min(start + self._capacity, len(faces))) for start in range(0, len(faces), self._capacity)]

    def _run(self, faces: Faces, plan: PastePlan, masks: Array) -> tuple[Array, Packing]:
        """Run the network and mix what it made into the crops."""
        count, kernels = len(faces), self._kernels
        self._network.run(count)
        kernels.usable(self._made, count, self._unpacking, self._masks[0], 1, out=self._table)
        reach = mix.reaches(plan.affine)
        kernels.mix(self._given, self._made, reach, self._packing, self._unpacking, blend=self._blend, out=self._mixed)
        return self._mixed, mix.PLAIN
