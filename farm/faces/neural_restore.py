"""Face restorers: GFPGAN, GPEN, CodeFormer, RestoreFormer++ on aligned crops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farm.errors import RecipeError
from farm.faces.neural_safety import Outputs, checked, full_precision
from farm.faces.neural_source import Loads
from farm.faces.neural_tensors import Picture, as_unit, to_pictures, to_tensor


@dataclass(frozen=True, slots=True)
class Restored:
    """faces: RGB 0..1 (n, s, s, 3). ok: bool (n,), False where the crop is returned as it came. redone: bool (n,)."""

    faces: Picture
    ok: NDArray[np.bool_]
    redone: NDArray[np.bool_]


class Restorer:
    """A catalogue restorer.

    blend: 0..1, how much of the restored face is mixed into the crop. fidelity: 0..1 for models that have such an input
    (CodeFormer: 0 looks best, 1 is most like the crop); RecipeError for the others.
    """

    def __init__(
        self,
        models: Loads,
        name: str,
        *,
        precision: str | None = None,
        blend: float | None = None,
        fidelity: float | None = None,
    ) -> None:
        self._models = models
        self._model = models.load(name, precision)
        spec = self._model.spec
        self._given = next(tensor for tensor in spec.inputs if tensor.kind == "image")
        self._weight = next((tensor for tensor in spec.inputs if tensor.kind == "weight"), None)
        self._made = next(tensor for tensor in spec.outputs if tensor.kind == "image")
        self._full = full_precision(spec, precision)
        self.side, self.template = self._given.size, self._given.template
        self.blend = float(spec.settings.get("blend", 1.0)) if blend is None else blend
        self._fidelity = float(spec.settings.get("weight", 0.5)) if fidelity is None else fidelity
        if fidelity is not None and self._weight is None:
            raise RecipeError("It has no fidelity setting.", where=f"model {name}", do="Leave the setting out.")
        for setting, value in (("blend", self.blend), ("fidelity", self._fidelity)):
            if not 0 <= value <= 1:
                raise RecipeError(f"{setting} is {value}.", where=f"model {name}", do="Give a number from 0 to 1.")

    def restore(self, crops: NDArray[np.uint8] | Picture) -> Restored:
        """Restored crops (n, side, side, 3) RGB, mixed with the given ones by `blend`."""
        given = as_unit(crops)

        def again(wrong: NDArray[np.float32]) -> Outputs:
            return self._models.load(self._model.spec.name, self._full).run_batch(**self._inputs(wrong))

        result = checked(
            lambda batch: self._model.run_batch(**self._inputs(batch)),
            again if self._full is not None else None,
            to_tensor(given, self._given),
            self._made.name,
        )
        made = to_pictures(result.outputs[self._made.name], self._made)
        mixed = given + (made - given) * np.float32(self.blend)
        return Restored(np.where(result.ok[:, None, None, None], mixed, given), result.ok, result.redone)

    def _inputs(self, tensor: NDArray[np.float32]) -> dict[str, NDArray[Any]]:
        inputs: dict[str, NDArray[Any]] = {self._given.name: tensor}
        if self._weight is not None:
            inputs[self._weight.name] = np.full(1, self._fidelity, self._weight.dtype)
        return inputs
