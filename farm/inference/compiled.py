"""Engines for the TensorRT providers: found in the cache, or compiled in a process of their own ahead of their use."""

from __future__ import annotations

from pathlib import Path

from farm.errors import RecipeError
from farm.inference.build import BuildProcess, request_for
from farm.inference.engines import Beat, EngineCache, EngineKey, Profile
from farm.inference.library import ObjectShelf
from farm.inference.machine import Machine, this_machine
from farm.inference.providers import TENSORRT, TENSORRT_RTX, expand
from farm.inference.spec import ModelSpec

_FREE_SIDE = (64, 256, 512)
"""Least, usual and most height or width of an input whose picture size is free and whose entry names no tile."""


def profiles(spec: ModelSpec, most: int) -> dict[str, Profile]:
    """The shapes that an engine for `spec` takes, by the graph's input names: 1 to `most` samples, the entry's tile."""
    tile = spec.settings.get("tile")
    side = (tile, tile, tile) if isinstance(tile, int) else _FREE_SIDE
    batch = (1, min(4, most), most)
    found = {}
    for tensor in spec.inputs:
        free = {"N": batch, "H": side, "W": side, "S": (tensor.size,) * 3}
        if any(isinstance(size, str) for size in tensor.shape):
            shapes = [
                tuple(size if isinstance(size, int) else free[size][i] for size in tensor.shape) for i in range(3)
            ]
            found[tensor.in_graph] = Profile(*shapes)
    return found


class CompiledEngines:
    """Compiled engines of this machine.

    Given to `Models` as `engine_dir`, it makes sure that a session of a TensorRT provider finds its engine built, so
    that nothing is compiled inside a worker, and `beat` is called while it waits.
    """

    def __init__(
        self,
        folder: Path,
        *,
        shelf: ObjectShelf | None = None,
        timeout: float = 1800.0,
        most: int = 16,
        device: int = 0,
        target: str = "",
        beat: Beat | None = None,
        machine: Machine | None = None,
        process: BuildProcess | None = None,
    ) -> None:
        self._folder = folder
        self._cache = EngineCache(folder, shelf=shelf)
        self._process = process or BuildProcess(timeout=timeout)
        self._most, self._device, self._target, self._beat = most, device, target, beat
        self._machine = machine or this_machine(device)

    def __call__(self, spec: ModelSpec, precision: str, provider: str, weights: Path) -> Path | None:
        """The engine folder for a session; None for providers that compile nothing."""
        if provider == TENSORRT:
            return self.compile(spec, precision, provider, weights)
        if provider == TENSORRT_RTX:  # compiles at run time in seconds; its cache gets a folder of this model alone
            folder = self._folder / f"runtime-{self.key(spec, precision, provider).digest()}"
            folder.mkdir(parents=True, exist_ok=True)
            return folder
        return None

    def compile(self, spec: ModelSpec, precision: str, provider: str, weights: Path) -> Path:
        """The cached engine, compiled now where there is none.

        Raises RecipeError where the provider cannot serve the model, InfrastructureError where compiling failed.
        """
        (provider,) = expand([provider])
        key = self.key(spec, precision, provider)
        method = "plan" if provider == TENSORRT_RTX or self._target else "session"
        if method == "plan" and not self._target:
            raise RecipeError(
                "A plan is compiled for a compute capability.",
                where=f"model {spec.name}",
                do="Give --target, e.g. 12.0.",
            )

        def build(out: Path) -> None:
            request = request_for(key, weights, out, method=method, target=self._target, device=self._device)
            log = self._folder / "logs" / f"{key.digest()}.log"
            self._process.build(request, log, beat=self._beat)

        return self._cache.ensure(key, build, beat=self._beat)

    def key(self, spec: ModelSpec, precision: str, provider: str) -> EngineKey:
        sha256 = spec.file(precision).sha256
        if sha256 is None:
            raise RecipeError("Its checksum is not known.", where=f"model {spec.name}", do="Pin it in your catalogue.")
        return EngineKey(
            model_sha256=sha256,
            provider=provider,
            precision=precision,
            gpu=f"compiled for {self._target}" if self._target else self._machine.gpu,
            versions=self._machine.versions,
            shapes=profiles(spec, self._most),
        )
