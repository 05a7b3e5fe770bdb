"""Models ready to run: verified weights in ONNX Runtime sessions, each with one thread of its own.

Nothing here touches a GPU at import; ONNX Runtime itself is imported with the first model.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from farm.errors import FarmError, InfrastructureError, OutOfMemoryError, RecipeError
from farm.inference import providers as ep
from farm.inference.catalogue import Catalogue
from farm.inference.integrity import sha256_of
from farm.inference.library import ModelLibrary
from farm.inference.licences import LicencePolicy
from farm.inference.opening import EngineDir, Opener, runtime, short, takes_batches
from farm.inference.spec import ModelSpec, Tensor

__all__ = ["Model", "ModelUse", "Models", "runtime"]

Array = NDArray[Any]

_OUT_OF_MEMORY = ("failed to allocate", "out of memory", "bad_alloc", "cudaerrormemoryallocation")


@dataclass(frozen=True, slots=True)
class ModelUse:
    """What an attempt's record says of one model: what was asked for and what really ran.

    `error`: of int8, measured against full precision (see `farm.inference.calibrated`).
    """

    name: str
    precision: str
    sha256: str
    licence: str
    requested: tuple[str, ...]
    actual: str
    skipped: tuple[ep.Skipped, ...]
    batches: bool
    error: float | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class Model:
    """One network in one session. `run` may be called from any thread; the work is done by the session's own.

    A session that is run from ever new threads grows (onnxruntime #29351), and two threads in one session may share
    buffers; one thread per session rules both out.
    """

    def __init__(self, spec: ModelSpec, session: Any, use: ModelUse) -> None:
        self.spec = spec
        self.use = use
        self._session = session
        self._pid = os.getpid()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"model-{spec.name}")
        self._inputs = {tensor.name: tensor for tensor in spec.inputs}
        self._given, self._made = _bind(spec, session)

    @property
    def provider(self) -> str:
        """The provider that really runs it."""
        return self.use.actual

    def run(self, **inputs: Array) -> dict[str, Array]:
        """Outputs by the contract's names for inputs by the contract's names; arrays are cast to the contract's type.

        Raises RecipeError where the inputs are not those of the contract, OutOfMemoryError, InfrastructureError.
        """
        if os.getpid() != self._pid:
            raise RecipeError(
                "A model was used in another process than the one that loaded it.",
                where=f"model {self.spec.name}",
                do="Load models in the process that runs them.",
            )
        return self._thread.submit(self._run, inputs).result()

    def feed(self, **inputs: Array) -> dict[str, Array]:
        """The inputs as the graph itself takes them: by its own names, in its own types."""
        return {self._given[name]: self._ready(name, array) for name, array in self._checked(inputs).items()}

    def graph_output(self, name: str) -> str:
        """What the graph calls the output `name`."""
        return self._made[name]

    @property
    def batches(self) -> bool:
        """Whether the graph takes any number of samples at once."""
        return self.use.batches

    def run_batch(self, **inputs: Array) -> dict[str, Array]:
        """Like `run` for n samples along the first axis, in one call where the graph allows it, else one by one.

        An input with one sample serves all of them; inputs whose first axis is no batch are given whole each time.
        """
        batched = {name for name in inputs if name in self._inputs and isinstance(self._inputs[name].shape[0], str)}
        count = max((int(inputs[name].shape[0]) for name in batched), default=1)
        whole = {
            name: np.broadcast_to(array, (count, *array.shape[1:])) if name in batched and len(array) == 1 else array
            for name, array in inputs.items()
        }
        if count == 1 or self.batches:
            return self.run(**whole)
        parts = [
            self.run(**{name: array[i : i + 1] if name in batched else array for name, array in whole.items()})
            for i in range(count)
        ]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def close(self) -> None:
        self._thread.shutdown(wait=True)
        self._session = None

    def _run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        feed = self.feed(**inputs)
        try:
            values = self._session.run(list(self._made.values()), feed)
        except Exception as error:
            raise _translated(error, self.spec.name) from error
        return {name: np.asarray(value) for name, value in zip(self._made, values, strict=True)}

    def _checked(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """The inputs that the graph takes; an optional one that this export lacks is left out."""
        unknown = sorted(set(inputs) - set(self._inputs))
        missing = sorted(set(self._given) - set(inputs))
        if unknown or missing:
            raise RecipeError(
                f"Wrong inputs: unknown {unknown}, missing {missing}.",
                where=f"model {self.spec.name}",
                do=f"Give: {', '.join(self._given)}.",
            )
        return {name: array for name, array in inputs.items() if name in self._given}

    def _ready(self, name: str, array: Array) -> Array:
        tensor = self._inputs[name]
        if not _fits(tensor, array.shape):
            raise RecipeError(
                f"Input {name} has shape {tuple(array.shape)}, the contract says {tensor.shape}.",
                where=f"model {self.spec.name}",
                do="Prepare the input as the catalogue entry says.",
            )
        return np.ascontiguousarray(array, dtype=np.dtype(tensor.dtype))


class Models:
    """Loads catalogue models once each and keeps them.

    Parameters
    ----------
    providers: execution providers in order of preference ("auto" is TensorRT, TensorRT for RTX, CUDA, CPU).
    threads: CPU threads that one session may use inside an operator; the worker's slot decides.
    allowed_licences: licence classes beside "permissive". accepted: licences accepted by model name (name → id).
    home: folder of pulled weights. library: replaces catalogue + home, for instance one with the farm's shelf.
    settings: card and memory limit of the GPU providers. engine_dir: gives each model its own engine folder.
    free_batches: rewrite graphs that were exported for one sample, so that they take batches; the rewritten graph is
        compared with the original before it is used, and the original stays in use where that cannot be done.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        *,
        providers: Iterable[str] = (ep.CPU,),
        threads: int = 1,
        allowed_licences: Iterable[str] = (),
        accepted: Mapping[str, str] | None = None,
        home: Path | None = None,
        library: ModelLibrary | None = None,
        settings: ep.ProviderSettings | None = None,
        free_batches: bool = False,
        engine_dir: EngineDir | None = None,
    ) -> None:
        self.catalogue = catalogue
        self.policy = LicencePolicy.of(allowed_licences, accepted)
        self._opener = Opener(
            requested=ep.expand(providers),
            threads=threads,
            settings=settings or ep.ProviderSettings(),
            free_batches=free_batches,
            engine_dir=engine_dir,
        )
        self._library = library or ModelLibrary(catalogue, home)
        self._loaded: dict[tuple[str, str], Model] = {}
        self._calibrated: dict[tuple[str, str], tuple[Path, float]] = {}
        self._loading = Lock()

    def __enter__(self) -> Models:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def check(self, name: str) -> None:
        """Raise PolicyError unless the model, and every model it needs, may be used in a job here."""
        for spec in self.catalogue.with_needs(name):
            self.policy.check(spec)

    def load(self, name: str, precision: str | None = None) -> Model:
        """The model, its licence checked, its weights verified; the same object for the same name and precision.

        May be called from several threads: a network that has to be run again in full precision is loaded on the way.
        """
        spec = self.catalogue.spec(name)
        key = (name, precision or spec.default_precision)
        with self._loading:
            if key not in self._loaded:
                self._loaded[key] = self._open(spec, key[1])
            return self._loaded[key]

    def calibrated(self, name: str, precision: str, path: Path, error: float) -> None:
        """Let `load` open the file `path` for this name and precision ("int8-..."), which has this measured error.

        Other calibrations of the network are let go: each belongs to one plate.
        """
        with self._loading:
            for known, other in list(self._calibrated):
                if known == name and other != precision:
                    del self._calibrated[known, other]
                    if (old := self._loaded.pop((known, other), None)) is not None:
                        old.close()
            self._calibrated[name, precision] = path, error

    def weights(self, name: str, precision: str | None = None) -> Path:
        """The verified weights file, for what a session does not give (the matrix in an inswapper file)."""
        self.check(name)
        return self._library.path(name, precision)

    def used(self) -> list[ModelUse]:
        """Every loaded model with its requested and actual provider, for the attempt's record."""
        return [model.use for _, model in sorted(self._loaded.items())]

    def close(self) -> None:
        for model in self._loaded.values():
            model.close()
        self._loaded.clear()

    def _open(self, spec: ModelSpec, precision: str) -> Model:
        if spec.not_built:
            raise RecipeError(
                "It is listed, but the farm has no processor for it yet.",
                where=f"model {spec.name}",
                do="Choose a model that `farm models list` does not mark as not built.",
            )
        small = self._calibrated.get((spec.name, precision))
        if spec.builtin or (precision not in spec.files and small is None):
            raise RecipeError(
                "It is built in and has no weights." if spec.builtin else f"It has no {precision} weights.",
                where=f"model {spec.name}",
                do=f"It comes as: {', '.join(spec.files) or 'code'}.",
            )
        self.check(spec.name)
        path = self._library.path(spec.name, precision) if small is None else small[0]
        opened = self._opener.open(spec, precision, path)
        use = ModelUse(
            name=spec.name,
            precision=precision,
            sha256=(spec.files[precision].sha256 or "") if small is None else sha256_of(path),
            licence=spec.licence.id,
            requested=self._opener.requested,
            actual=opened.actual,
            skipped=opened.skipped,
            batches=takes_batches(opened.session),
            error=None if small is None else small[1],
        )
        return Model(spec, opened.session, use)


def _bind(spec: ModelSpec, session: Any) -> tuple[dict[str, str], dict[str, str]]:
    given = {value.name: tuple(value.shape) for value in session.get_inputs()}
    made = {value.name: tuple(value.shape) for value in session.get_outputs()}
    return graph_names(spec, given, made)


def graph_names(
    spec: ModelSpec, given: Mapping[str, tuple[Any, ...]], made: Mapping[str, tuple[Any, ...]]
) -> tuple[dict[str, str], dict[str, str]]:
    """Contract name → graph name of inputs and of outputs, after checking that graph and contract agree.

    given, made: shapes of the graph's inputs and outputs by name, in its order. RecipeError where they do not agree.
    """
    inputs = _names(spec, spec.inputs, list(given), by_position=False)
    if spec.match == "position" and not set(inputs.values()) <= set(given):
        inputs = _names(spec, spec.inputs, list(given), by_position=True)
    outputs = _names(spec, spec.outputs, list(made), by_position=spec.match == "position")
    tensors = {tensor.name: tensor for tensor in (*spec.inputs, *spec.outputs)}
    wrong = [
        f"{graph} {shapes.get(graph, 'absent')} instead of {tensors[name].shape}"
        for names, shapes in ((inputs, given), (outputs, made))
        for name, graph in names.items()
        if not (tensors[name].optional and graph not in shapes) and not _same(tensors[name], shapes.get(graph))
    ]
    wrong += [f"{name} unknown" for name in sorted(set(given) - set(inputs.values()))]
    if wrong:
        raise RecipeError(
            f"The graph is not the one of the contract: {'; '.join(wrong)}.",
            where=f"model {spec.name}",
            do="Correct the catalogue entry, or use the file it was written for.",
        )
    return (
        {name: graph for name, graph in inputs.items() if graph in given},
        {name: graph for name, graph in outputs.items() if graph in made},
    )


def _names(spec: ModelSpec, tensors: tuple[Tensor, ...], found: list[str], *, by_position: bool) -> dict[str, str]:
    if not by_position:
        return {tensor.name: tensor.in_graph for tensor in tensors}
    return {tensor.name: found[i] if i < len(found) else tensor.in_graph for i, tensor in enumerate(tensors)}


def _same(tensor: Tensor, shape: tuple[Any, ...] | None) -> bool:
    if shape is None:
        return False
    if not shape:  # the graph does not say
        return True
    return len(shape) == len(tensor.shape) and all(
        not isinstance(found, int) or not isinstance(said, int) or found == said
        for said, found in zip(tensor.shape, shape, strict=True)
    )


def _fits(tensor: Tensor, shape: tuple[int, ...]) -> bool:
    return len(shape) == len(tensor.shape) and all(
        isinstance(said, str) or said == found for said, found in zip(tensor.shape, shape, strict=True)
    )


def _translated(error: Exception, name: str) -> FarmError:
    text = short(error)
    if any(sign in text.lower() for sign in _OUT_OF_MEMORY):
        return OutOfMemoryError(
            "The device ran out of memory while a model ran.", where=f"model {name}", do="Use a smaller batch."
        )
    return InfrastructureError(
        f"ONNX Runtime failed: {text}",
        where=f"model {name}",
        do="Try again; if it recurs, report it with the model name.",
    )
