"""Networks bound to buffers of fixed shape: one session a batch size, inputs and outputs where they already lie.

On a card nothing is copied through the host and nothing is waited for: the work is put on the given stream. On a
processor the same object runs on NumPy arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from farm.errors import InfrastructureError, OutOfMemoryError, RecipeError
from farm.inference import providers as ep
from farm.inference.opening import runtime, short

Source = Path | bytes
Allocate = Callable[[tuple[int, ...], Any], Any]
"""An array of (shape, dtype) on the device that the network runs on."""

_TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64}
_FULL = ("failed to allocate", "out of memory", "bad_alloc", "memoryallocation")
GRAPHS = {"enable_cuda_graph": "1"}
"""Record the work of a run once and replay it: for networks of many small kernels, whose launching costs more."""
_NO_GRAPH = "-1"
POISONED = ("illegal memory access", "unspecified launch failure", "misaligned address", "device-side assert")
"""Signs of an error after which every call of the process fails: the process has to be replaced."""


class PoisonedContextError(InfrastructureError):
    """The CUDA context of this process is lost. Only a new process can go on."""


@dataclass(frozen=True, slots=True)
class Port:
    """One input or output of a static graph."""

    name: str
    shape: tuple[int, ...]
    dtype: Any


class BoundNetwork:
    """One session with a static batch. `provider` is the one that runs it, `skipped` those asked for before it."""

    def __init__(
        self, session: Any, provider: str, skipped: tuple[ep.Skipped, ...], batch: int, name: str, *, graphs: bool
    ) -> None:
        self.batch, self.provider, self.skipped, self.name, self.graphs = batch, provider, skipped, name, graphs
        self.inputs = [_port(value, batch) for value in session.get_inputs()]
        self.outputs = [_port(value, batch) for value in session.get_outputs()]
        self._session = session
        self._bindings: dict[int | None, tuple[tuple[int, ...], Any]] = {}
        self._options: dict[int | None, Any] = {}

    def buffers(self, allocate: Allocate) -> dict[str, Any]:
        """Fresh arrays for every input and output."""
        return {port.name: allocate(port.shape, port.dtype) for port in (*self.inputs, *self.outputs)}

    def run(self, arrays: Mapping[str, Any], graph: int | None = 0) -> None:
        """Read the inputs in `arrays` and fill the outputs there; each is C-contiguous and has the port's shape.

        graph: the number under which the work for just these arrays is recorded and replayed, where `graphs`; None runs
        without. What others put on the same stream while a graph is recorded becomes a part of it.
        On a card this returns before the work is done. Raises OutOfMemoryError, PoisonedContextError,
        InfrastructureError.
        """
        try:
            if self.provider == ep.CPU:
                made = self._session.run([p.name for p in self.outputs], {p.name: arrays[p.name] for p in self.inputs})
                for port, value in zip(self.outputs, made, strict=True):
                    arrays[port.name][...] = value
                return
            self._session.run_with_iobinding(self._bound(arrays, graph), self._told(graph))
        except Exception as error:
            raise device_error(error, f"model {self.name}") from error

    def _bound(self, arrays: Mapping[str, Any], graph: int | None) -> Any:
        """The binding to just these arrays; bound anew only where they are others than the graph's last time."""
        places = tuple(arrays[port.name].data.ptr for port in (*self.inputs, *self.outputs))
        known = self._bindings.get(graph)
        if known is not None and known[0] == places:
            return known[1]
        binding = self._session.io_binding()
        for port in self.inputs:
            binding.bind_input(port.name, "cuda", 0, port.dtype, port.shape, arrays[port.name].data.ptr)
        for port in self.outputs:
            binding.bind_output(port.name, "cuda", 0, port.dtype, port.shape, arrays[port.name].data.ptr)
        self._bindings[graph] = (places, binding)
        return binding

    def _told(self, graph: int | None) -> Any:
        """Run options; made once for each graph."""
        if graph not in self._options:
            options = runtime().RunOptions()
            # The stream keeps the order; waiting for it here would leave the card idle between two calls.
            options.add_run_config_entry("disable_synchronize_execution_providers", "1")
            if self.graphs:
                options.add_run_config_entry("gpu_graph_id", _NO_GRAPH if graph is None else str(graph + 1))
            self._options[graph] = options
        return self._options[graph]


def is_poisoned(error: BaseException) -> bool:
    """Whether this error, or one that it came from, means that the process has lost its CUDA context."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, PoisonedContextError) or any(sign in str(cause).lower() for sign in POISONED):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def device_error(error: Exception, where: str) -> Exception:
    """The farm's error for one of ONNX Runtime or CUDA."""
    text = short(error)
    if any(sign in text.lower() for sign in _FULL):
        return OutOfMemoryError("The device ran out of memory.", where=where, do="Use a smaller batch, or fewer slots.")
    if any(sign in text.lower() for sign in POISONED):
        return PoisonedContextError(
            f"The card's context is lost: {text}", where=where, do="The worker replaces this process by itself."
        )
    return InfrastructureError(f"The device failed: {text}", where=where, do="Try again; report it if it recurs.")


@contextmanager
def device_errors(where: str) -> Iterator[None]:
    """Errors of CuPy inside the block as the farm's own."""
    try:
        yield
    except Exception as error:
        if type(error).__module__.partition(".")[0] in ("cupy", "cupy_backends"):
            raise device_error(error, where) from error
        raise


def open_bound(
    source: Source,
    batch: int,
    *,
    requested: Sequence[str],
    settings: ep.ProviderSettings | None = None,
    stream: int | None = None,
    threads: int = 1,
    name: str = "network",
    tuning: Mapping[str, str] | None = None,
) -> BoundNetwork:
    """Open `source` with its batch axis fixed to `batch`, by the first provider of `requested` that runs it.

    stream: the CUDA stream (its address) on which a card's providers work. tuning: options of the CUDA provider instead
    of the farm's, `GRAPHS` for one. Raises RecipeError, with every provider's
    reason, where none can; OutOfMemoryError where the device is full.
    """
    axes = _free_axes(source)
    skipped: list[ep.Skipped] = []
    for provider in requested:
        if provider not in runtime().get_available_providers():
            skipped.append(ep.Skipped(provider, "not in this build of ONNX Runtime"))
            continue
        try:
            told = _told(provider, settings or ep.ProviderSettings(), stream, tuning or {})
            session = _open(source, batch, axes, told, threads)
        except Exception as error:
            known = device_error(error, f"model {name}")
            if isinstance(known, OutOfMemoryError | PoisonedContextError):
                raise known from error
            skipped.append(ep.Skipped(provider, short(error)))
            continue
        if session.get_providers()[0] == provider:
            graphs = told[1].get("enable_cuda_graph") == "1"
            return BoundNetwork(session, provider, tuple(skipped), batch, name, graphs=graphs)
        skipped.append(ep.Skipped(provider, "ONNX Runtime could not start it on this machine"))
    why = "; ".join(f"{skip.provider}: {skip.why}" for skip in skipped)
    raise RecipeError(
        f"No requested execution provider can run it ({why}).",
        where=f"model {name}",
        do="Allow another provider (FARM_PROVIDERS), or install what is missing; `farm doctor` says what.",
    )


def _told(provider: str, settings: ep.ProviderSettings, stream: int | None, tuning: Mapping[str, str]) -> ep.Setup:
    name, options = ep.setup(provider, settings)
    if provider == ep.CUDA:
        options = {**options, **tuning}
    if provider != ep.CPU and stream is not None:
        options = {**options, "user_compute_stream": str(stream)}
    return name, options


def _open(source: Source, batch: int, axes: Sequence[str], told: ep.Setup, threads: int) -> Any:
    ort = runtime()
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # Static shapes let the shape arithmetic be folded away; left in, it costs copies between host and card.
    for axis in axes:
        options.add_free_dimension_override_by_name(axis, batch)
    chain: list[Any] = [told]
    if told[0] != ep.CPU:
        ort.preload_dlls()
        chain.append((ep.CPU, {}))
    session = ort.InferenceSession(source if isinstance(source, bytes) else str(source), options, providers=chain)
    session.disable_fallback()
    return session


def _free_axes(source: Source) -> list[str]:
    """Names of the first axes that the graph leaves open."""
    ort = runtime()
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    given = source if isinstance(source, bytes) else str(source)
    session = ort.InferenceSession(given, options, providers=[ep.CPU])
    values = (*session.get_inputs(), *session.get_outputs())
    return sorted({value.shape[0] for value in values if value.shape and isinstance(value.shape[0], str)})


def _port(value: Any, batch: int) -> Port:
    shape = tuple(size if isinstance(size, int) else batch for size in value.shape)
    if value.type not in _TYPES:
        raise RecipeError(
            f"The tensor {value.name} has the type {value.type}.",
            where="bound network",
            do="Export it with floating-point inputs and outputs.",
        )
    return Port(value.name, shape, np.dtype(_TYPES[value.type]))
