"""Networks in int8, calibrated on one plate's own crops: built once, kept by weights and samples, with their error."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from farm.errors import RecipeError
from farm.inference.build import BuildProcess, BuildRequest
from farm.inference.engines import Beat, EngineCache, EngineKey
from farm.inference.library import ObjectShelf
from farm.inference.machine import package_versions
from farm.inference.quantise import MEASURED, MODEL, samples_file
from farm.inference.spec import INT8, ModelSpec

Feed = dict[str, NDArray[Any]]

_KEPT = 8
"""On one machine; each is as large as a quarter of the weights."""


class Calibrated(BaseModel):
    """A network in int8: of which weights, by which samples (sha256 each), made by which versions, how far off.

    `error`: mean difference from full precision on `samples` crops that did not calibrate it, as a share of what the
    answers of full precision span.
    """

    model_config = ConfigDict(frozen=True)

    model: str
    weights: str
    calibration: str
    versions: dict[str, str]
    error: float
    samples: int

    @property
    def precision(self) -> str:
        """What a recipe's `precision` becomes, so that no two calibrations share a session."""
        return f"{INT8}-{self.key.digest()[:16]}"

    @property
    def key(self) -> EngineKey:
        versions = {**self.versions, "calibration": self.calibration}
        return EngineKey(self.weights, provider=INT8, precision=INT8, gpu="any", versions=versions)


class Calibrator:
    """Calibrated networks under `folder`, the newest few, shared with other machines through `shelf`.

    name: the key on the shelf for a digest; networks of one plate go with its job.
    """

    def __init__(
        self,
        folder: Path,
        *,
        shelf: ObjectShelf | None,
        name: Callable[[str], str],
        timeout: float = 1800.0,
        process: BuildProcess | None = None,
    ) -> None:
        self._folder = folder
        self._cache = EngineCache(folder, shelf=shelf, name=name)
        self._process = process or BuildProcess(timeout=timeout)

    def make(
        self, spec: ModelSpec, weights: Path, feeds: Sequence[Feed], output: str, *, beat: Beat | None = None
    ) -> Calibrated:
        """`spec`'s fp32 file `weights` in int8 by `feeds`, samples by the graph's names; built in a process of its own.

        output: the graph's name of its picture. RecipeError where there is no sample, or the network cannot be
        quantised; InfrastructureError where the builder crashed or hung more than once.
        """
        if not feeds:
            raise RecipeError(
                "No face of the plate is large and sharp enough to calibrate int8 by.",
                where=f"model {spec.name}",
                do="Use another precision for this plate.",
            )
        asked = Calibrated(
            model=spec.name,
            weights=spec.file(INT8).sha256 or "",
            calibration=_digest(feeds),
            versions=package_versions("onnxruntime", "onnx"),
            error=0,
            samples=0,
        )

        def build(out: Path) -> None:
            samples = out.parent / "samples.npz"
            samples_file(samples, list(feeds))
            request = BuildRequest(
                model=str(weights),
                out=str(out),
                provider=INT8,
                method="calibrate",
                precision=INT8,
                shapes={},
                samples=str(samples),
                output=output,
            )
            self._process.build(request, self._folder / "logs" / f"{asked.key.digest()}.log", beat=beat)

        place = self._cache.ensure(asked.key, build, beat=beat)
        self._cache.share(asked.key)
        os.utime(place)
        self._cache.keep_newest(_KEPT)
        return asked.model_copy(update=json.loads((place / MEASURED).read_text()))

    def find(self, calibrated: Calibrated) -> Path | None:
        """The network's file, checked against its manifest; None where neither this machine nor the shelf has it."""
        place = self._cache.get(calibrated.key)
        return None if place is None else place / MODEL


def _digest(feeds: Sequence[Feed]) -> str:
    found = hashlib.sha256()
    for feed in feeds:
        for name in sorted(feed):
            array = np.ascontiguousarray(feed[name])
            found.update(f"{name} {array.dtype} {array.shape}\0".encode())
            found.update(array.data)
    return found.hexdigest()
