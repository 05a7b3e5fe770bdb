"""The networks of the card's path, opened once a slot: looking for any recipe, and one recipe's swapper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from farm.faces.cuda.backend import Kernels, NumpyKernels
from farm.faces.cuda.look import CADENCE
from farm.faces.cuda.swap import SwapSettings, SwapStep
from farm.faces.network import DETECTOR, EMBEDDER, LANDMARKER, PALMS
from farm.inference import providers as ep
from farm.inference.bound import GRAPHS, BoundNetwork, Source, open_bound
from farm.inference.buckets import Buckets, ready
from farm.inference.half import half_bytes
from farm.inference.rebatch import proved_free
from farm.inference.spec import ModelSpec

TWIN, CARD = "twin", "card"
"""Back ends: NumPy on the processor, CUDA kernels on the card."""
CHOSEN: Mapping[str, str] = {**GRAPHS, "cudnn_conv_algo_search": "HEURISTIC"}
FUSED: Mapping[str, str] = {**CHOSEN, "fuse_conv_bias": "1"}
"""Options of the CUDA provider. cuDNN's own choice made the swappers 4 to 10 % faster than trying every algorithm did,
and fusing the bias made the landmarks' hundred small convolutions a third faster, for ten seconds more to open them."""
_EMBEDDED = 8
_PALMS = 4
_ON_CARD = (ep.TENSORRT, ep.CUDA)


class Weights(Protocol):
    """Where specs and verified weights come from; `farm.inference.session.Models` is the real one."""

    @property
    def catalogue(self) -> Any: ...

    def weights(self, name: str, precision: str | None = None) -> Path: ...


@dataclass(frozen=True, slots=True)
class Device:
    """name: TWIN or CARD. providers: asked for, best first. threads: of the processor, for the twin's networks."""

    name: str
    providers: tuple[str, ...] = (ep.CPU,)
    threads: int = 1

    @classmethod
    def card(cls, providers: Sequence[str]) -> Device:
        """The card, with those of `providers` that work on its memory."""
        return cls(CARD, tuple(name for name in ep.expand(providers) if name in _ON_CARD) or (ep.CUDA,))

    def kernels(self) -> Kernels:
        if self.name == TWIN:
            return NumpyKernels()
        from farm.faces.cuda.device import CudaKernels

        return CudaKernels()


@dataclass(frozen=True, slots=True)
class Opened:
    """A network with its contract."""

    buckets: Buckets
    spec: ModelSpec


class CardNetworks:
    """Everything that one swapper's recipe runs, for batches of `batch` frames, on one stream.

    Raises OutOfMemoryError where the device is full, RecipeError where a network cannot be run there; then nothing
    stays open.
    """

    def __init__(
        self, device: Device, models: Weights, swapper: str, precision: str | None, batch: int, settings: SwapSettings
    ) -> None:
        self.kernels = device.kernels()
        self.batch = batch
        self._device, self._models = device, models
        self._uses: list[dict[str, Any]] = []
        self._open: list[Buckets] = []
        keys, few = batch // CADENCE + 1, max(1, batch // 4)
        try:
            self.detector = self._network(DETECTOR, (keys,), keys, look=True)
            self.rough = self._network(LANDMARKER, (keys,), keys, look=True)
            self.landmarker = self._network(
                LANDMARKER, (batch, few) if device.name == TWIN else (batch,), batch, look=True
            )
            self.embedder = self._network(EMBEDDER, (_EMBEDDED,), _EMBEDDED)
            self.palms = self._network(PALMS, (_PALMS,), _PALMS)
            needed = SwapStep.pictures_needed(models.catalogue.spec(swapper), settings)
            self.swapper = self._network(swapper, (batch, few), max(batch, needed), precision=precision)
            ready(self._open)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        for buckets in self._open:
            buckets.close()
        self.kernels.release()

    def fill(self) -> dict[str, float]:
        """Share of the samples computed that was asked for, by network, since the networks were opened."""
        told = {"detector": self.detector, "landmarks": self.landmarker, "swapper": self.swapper}
        return {name: round(opened.buckets.fill, 3) for name, opened in told.items()}

    def used(self) -> list[dict[str, Any]]:
        """For the attempt's record: each network, its precision, what was asked for and what really runs it."""
        return list(self._uses)

    def _network(
        self, name: str, sizes: tuple[int, ...], capacity: int, *, precision: str | None = None, look: bool = False
    ) -> Opened:
        spec: ModelSpec = self._models.catalogue.spec(name)
        path = self._models.weights(name, precision)
        source = looking_source(path, self._device.name) if look else path
        tuning = FUSED if name == LANDMARKER else CHOSEN
        bound = [self._bound(source, path, size, name, tuning) for size in sorted(set(sizes))]
        buckets = Buckets(bound, capacity, self.kernels.empty, warm=False)
        self._open.append(buckets)
        file = precision or spec.default_precision
        self._uses.append(
            {
                "name": name,
                "precision": f"{file}, computed in half but for its heads" if source is not path else file,
                "sha256": spec.file(precision).sha256 or "",
                "licence": spec.licence.id,
                "requested": self._device.providers,
                "actual": buckets.provider,
                "skipped": [asdict(skip) for skip in bound[-1].skipped],
                "batches": True,
                "sizes": buckets.sizes,
            }
        )
        return Opened(buckets, spec)

    def _bound(self, source: Source, path: Path, size: int, name: str, tuning: Mapping[str, str]) -> BoundNetwork:
        told: dict[str, Any] = {
            "requested": self._device.providers,
            "stream": self.kernels.stream,
            "threads": self._device.threads,
            "name": name,
            "tuning": tuning if self._device.name == CARD else {},
        }
        network = open_bound(source, size, **told)
        if all(port.shape[0] == size for port in (*network.inputs, *network.outputs)):
            return network
        return open_bound(proved_free(path), size, **told)


def looking_source(path: Path, device: str) -> Source:
    """The graph that looks at frames on `device`: in half precision but for its heads on a card, as it is elsewhere.

    Rounding to half precision on a processor costs time instead of saving it. Needs the onnx package; without it the
    graph stays as it is.
    """
    if device != CARD:
        return path
    try:
        return half_bytes(path, heads=True)
    except ModuleNotFoundError:
        return path
