"""Open a network with the first execution provider of the chain that really runs it, and say why the others do not."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from farm.errors import InfrastructureError, RecipeError
from farm.inference import providers as ep
from farm.inference.prelu import without_prelu
from farm.inference.spec import ModelSpec

EngineDir = Callable[[ModelSpec, str, str, Path], Path | None]
"""The engine folder of (model, precision, provider, weights), which no other weights share; may take a build's time."""

_QUIET = 3  # errors only: ONNX Runtime warns of every missing GPU at start
_PLUGINS = {ep.TENSORRT_RTX: "onnxruntime_ep_nv_tensorrt_rtx"}
"""Providers that come as a plug-in package of their own."""
_REWRITTEN = 512 << 20
"""Bytes of the largest file that is rewritten in memory."""


@cache
def runtime() -> Any:
    """The onnxruntime module, quiet."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(_QUIET)
    return onnxruntime


@cache
def _preload_cuda() -> None:
    """Put the CUDA libraries of installed wheels on the loader's path; before the first GPU session of a process."""
    runtime().preload_dlls()


class _NotHereError(Exception):
    """A provider cannot be used; the message says why."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A session, the provider that really runs it, and those that were asked for before it."""

    session: Any
    actual: str
    skipped: tuple[ep.Skipped, ...]


@dataclass(frozen=True, slots=True)
class Opener:
    """How sessions are opened in this process.

    requested: providers in order (see `providers.expand`). threads: CPU threads inside an operator. free_batches:
    rewrite graphs of batch one where the result is proved to be the same. engine_dir: for the TensorRT providers.
    """

    requested: tuple[str, ...]
    threads: int = 1
    settings: ep.ProviderSettings = field(default_factory=ep.ProviderSettings)
    free_batches: bool = False
    engine_dir: EngineDir | None = None

    def open(self, spec: ModelSpec, precision: str, path: Path) -> Opened:
        """Raises RecipeError, with every provider's reason, where none can run the model."""
        skipped: list[ep.Skipped] = []
        for provider in self.requested:
            try:
                session = self._session(spec, precision, provider, path)
            except _NotHereError as error:
                skipped.append(ep.Skipped(provider, str(error)))
                continue
            if self.free_batches and not takes_batches(session):
                session = self._freed(spec, precision, provider, path, session)
            return Opened(session, provider, tuple(skipped))
        why = "; ".join(f"{skip.provider}: {skip.why}" for skip in skipped)
        raise RecipeError(
            f"No requested execution provider can run it ({why}).",
            where=f"model {spec.name}",
            do="Allow another provider (FARM_PROVIDERS), or install what is missing; `farm doctor` says what.",
        )

    def _session(self, spec: ModelSpec, precision: str, provider: str, model: Path | bytes) -> Any:
        ort = runtime()
        options = session_options(ort, spec, self.threads)
        if provider not in _PLUGINS and provider not in ort.get_available_providers():
            raise _NotHereError("not in this build of ONNX Runtime")
        folder = self._engines(spec, precision, provider, model)
        settings = replace(self.settings, engine_dir=folder, fp16="fp16" in precision)
        if provider in _PLUGINS:
            devices = plugin_devices(ort, provider, _PLUGINS[provider])
            options.add_provider_for_devices(devices, ep.setup(provider, settings)[1])
            chain: Sequence[ep.Setup] = ()
        else:
            chain = [ep.setup(provider, settings)]
            if provider != ep.CPU:
                _preload_cuda()
                chain = [*chain, (ep.CPU, {})]
        try:
            session = ort.InferenceSession(_graph_for(provider, model), options, providers=list(chain) or None)
        except Exception as error:
            raise _NotHereError(short(error)) from error
        session.disable_fallback()
        if session.get_providers()[0] != provider:
            raise _NotHereError("ONNX Runtime could not start it on this machine")
        return session

    def _engines(self, spec: ModelSpec, precision: str, provider: str, model: Path | bytes) -> Path | None:
        """The engine folder; a rewritten graph (bytes) has other weights than the file, and gets none."""
        if self.engine_dir is None or isinstance(model, bytes):
            return None
        try:
            return self.engine_dir(spec, precision, provider, model)
        except (RecipeError, InfrastructureError) as error:
            raise _NotHereError(error.what) from error

    def _freed(self, spec: ModelSpec, precision: str, provider: str, path: Path, session: Any) -> Any:
        """A session on the same network with a free batch axis, or `session` where that is not the same network."""
        from farm.inference.rebatch import freed_bytes, same_on_each

        try:
            freed = self._session(spec, precision, provider, freed_bytes(path))
            same_on_each(session, freed, [random_feed(session, seed) for seed in (1, 2)])
        except (RecipeError, _NotHereError):
            return session
        return freed


def _graph_for(provider: str, model: Path | bytes) -> str | bytes:
    """What ONNX Runtime is given: the file or graph as it is, or for the processor with PReLU as faster operators."""
    rewritten = None
    if provider == ep.CPU:
        if isinstance(model, bytes):
            rewritten = without_prelu(model)
        elif model.stat().st_size <= _REWRITTEN:
            rewritten = without_prelu(model.read_bytes())
    return rewritten or (model if isinstance(model, bytes) else str(model))


def plugin_devices(ort: Any, provider: str, package: str) -> list[Any]:
    """The device that a plug-in provider offers, its library registered; raises with the reason where there is none."""
    if not any(device.ep_name == provider for device in ort.get_ep_devices()):
        try:
            library = importlib.import_module(package).get_library_path()
        except ImportError:
            raise _NotHereError(f"the package {package.replace('_', '-')} is not installed") from None
        try:
            ort.register_execution_provider_library(provider, library)
        except Exception as error:
            raise _NotHereError(short(error)) from error
    devices = [device for device in ort.get_ep_devices() if device.ep_name == provider]
    if not devices:
        raise _NotHereError("no GPU of this machine suits it")
    return devices[:1]


def takes_batches(session: Any) -> bool:
    """Whether the first axis of every picture-like input (two axes or more) is free."""
    shapes = [value.shape for value in session.get_inputs() if len(value.shape) > 1]
    return bool(shapes) and not any(isinstance(shape[0], int) for shape in shapes)


def random_feed(session: Any, seed: int) -> dict[str, Any]:
    """One sample for every input of a graph, its free axes 1 long."""
    types = {"tensor(float16)": np.float16, "tensor(double)": np.float64}
    random = np.random.default_rng(seed)
    return {
        value.name: random.random([size if isinstance(size, int) else 1 for size in value.shape]).astype(
            types.get(value.type, np.float32)
        )
        for value in session.get_inputs()
    }


def session_options(ort: Any, spec: ModelSpec, threads: int) -> Any:
    """Quiet, deterministic, one operator after the other."""
    options = ort.SessionOptions()
    options.log_severity_level = _QUIET
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    options.use_deterministic_compute = True
    # Spinning threads would take the cores that decode and encode need.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # A memory plan per input shape would pile up for models whose picture size varies.
    options.enable_mem_pattern = not any(isinstance(size, str) for tensor in spec.inputs for size in tensor.shape[1:])
    return options


def short(error: Exception) -> str:
    """The first line of an error's text."""
    lines = str(error).strip().splitlines()
    return lines[0][:300] if lines else type(error).__name__
