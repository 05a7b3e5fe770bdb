"""The networks of the card's path by stage: those that look, for any recipe, and one recipe's swapper."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import cv2

from farm.errors import RecipeError
from farm.faces.cuda.backend import Kernels, NumpyKernels
from farm.faces.cuda.mesh_device import MeshDevice, mesh_device
from farm.faces.cuda.restore import ROOM
from farm.faces.cuda.swap import SwapSettings, SwapStep
from farm.faces.network import DETECTOR, EMBEDDER, HANDS, LANDMARKER, PALMS
from farm.faces.spans import CADENCE
from farm.faces.track import HANDS_EVERY
from farm.inference import providers as ep
from farm.inference.bound import GRAPHS, BoundNetwork, Source, open_bound
from farm.inference.buckets import Buckets, Home, ready
from farm.inference.half import half_bytes
from farm.inference.picture_size import sized_bytes
from farm.inference.rebatch import proved_free
from farm.inference.spec import ModelSpec

TWIN, CARD = "twin", "card"
"""Back ends: NumPy on the processor, CUDA kernels on the card."""
CHOSEN: Mapping[str, str] = {**GRAPHS, "cudnn_conv_algo_search": "HEURISTIC"}
GRAPHLESS: Mapping[str, str] = {"cudnn_conv_algo_search": "HEURISTIC"}
FUSED: Mapping[str, str] = {**CHOSEN, "fuse_conv_bias": "1"}
"""Options of the CUDA provider. cuDNN's own choice made the swappers 4 to 10 % faster than trying every algorithm did,
and fusing the bias made the landmarks' hundred small convolutions a third faster, for ten seconds more to open them."""
EYES = 2
"""While one waits for the card another works."""
WIDE = (640, 384)
"""Columns and rows that a detector is given of a plate of five to three or wider: what is empty of a square costs as
much as what is not."""
_EMBEDDED = 8
_HANDS = 8
_STAGES = ("paint", "fetch", "feed", "aside")
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

    def kernels(self, *, urgent: bool = False) -> Kernels:
        """A stage's own; urgent: it goes first where the card has work of several."""
        if self.name == TWIN:
            return NumpyKernels()
        from farm.faces.cuda.device import CudaKernels

        return CudaKernels(urgent=urgent)


@dataclass(frozen=True, slots=True)
class Opened:
    """A network with its contract."""

    buckets: Buckets
    spec: ModelSpec


@dataclass(frozen=True, slots=True)
class Restoring:
    """A recipe's restorer: its model, and which of its files."""

    model: str
    precision: str | None


class Stage:
    """A part of the line that works in a thread and on a stream of its own, with the networks that it runs there.

    Raises what `open_bound` raises.
    """

    def __init__(self, device: Device, models: Weights, *, urgent: bool = False, name: str = "stage") -> None:
        self._device, self._models = device, models
        self.kernels = device.kernels(urgent=urgent)
        self.home = Home(name)
        self.open: list[Buckets] = []
        self.uses: list[dict[str, Any]] = []

    @cached_property
    def mesh(self) -> MeshDevice:
        """The mesh-warp's kernels on this stage's stream."""
        return mesh_device(self.kernels)

    def close(self) -> None:
        self.home.close()
        for buckets in self.open:
            buckets.close()
        self.kernels.release()

    def network(
        self,
        name: str,
        sizes: Sequence[int],
        capacity: int,
        *,
        precision: str | None = None,
        look: bool = False,
        size: tuple[int, int] | None = None,
        tuning: Mapping[str, str] = CHOSEN,
    ) -> Opened:
        """Open one; it is run in this stage's thread. look: it looks at frames, see `looking_source`.

        size: columns and rows of its picture, where it shall not be the contract's.
        """
        spec: ModelSpec = self._models.catalogue.spec(name)
        path = self._models.weights(name, precision)

        def made(given: Source) -> Source:
            half = looking_source(given, self._device.name) if look else given
            return half if size is None else sized_bytes(half, *size)

        bound = [self._bound(made, path, count, name, tuning) for count in sorted(set(sizes))]
        buckets = Buckets(bound, capacity, self.kernels.empty, warm=False, home=self.home)
        self.open.append(buckets)
        file = precision or spec.default_precision
        self.uses.append(
            {
                "name": name,
                "precision": f"{file}, computed in half but for its heads"
                if look and self._device.name == CARD
                else file,
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

    def _bound(
        self, made: Callable[[Source], Source], path: Path, size: int, name: str, tuning: Mapping[str, str]
    ) -> BoundNetwork:
        """What is `made` of the file at `path`, for so many samples; of a copy with a free batch where it has none."""
        told: dict[str, Any] = {
            "requested": self._device.providers,
            "stream": self.kernels.stream,
            "threads": self._device.threads,
            "name": name,
            "tuning": tuning if self._device.name == CARD else {},
        }
        network = open_bound(made(path), size, **told)
        if all(port.shape[0] == size for port in (*network.inputs, *network.outputs)):
            return network
        return open_bound(made(proved_free(path)), size, **told)


class Eye(Stage):
    """All that looks at batches of frames; no recipe changes it."""

    def __init__(self, device: Device, models: Weights, batch: int) -> None:
        # Looking is little work in many small pieces; behind the swapper's large ones it would wait for each.
        super().__init__(device, models, urgent=True, name="look")
        keys, twin = batch // CADENCE + 1, device.name == TWIN
        self.detector = self.network(DETECTOR, (keys,), keys, look=True)
        self.wide = self.network(DETECTOR, (keys,), keys, look=True, size=WIDE)
        self.rough = self.network(LANDMARKER, (keys,), keys, look=True)
        sizes = (batch, max(1, batch // 4)) if twin else (batch,)
        self.landmarker = self.network(LANDMARKER, sizes, batch, look=True, tuning=FUSED)
        self.embedder = self.network(EMBEDDER, (_EMBEDDED,), _EMBEDDED)
        palms = batch // HANDS_EVERY + 1
        self.palms = self.network(PALMS, (palms,), palms, look=True)
        self.hands = self.network(HANDS, (_HANDS,), _HANDS)


class Sight:
    """The eyes of a slot for batches of `batch` frames: each looks at one batch while the others look at theirs."""

    def __init__(self, device: Device, models: Weights, batch: int, *, eyes: int = EYES) -> None:
        # OpenCV's threads wait for work awake, all cores of them for the small pictures that it is given here.
        cv2.setNumThreads(1)
        self.batch = batch
        self.eyes: list[Eye] = []
        try:
            for _ in range(1 if device.name == TWIN else eyes):
                self.eyes.append(Eye(device, models, batch))
            ready([buckets for eye in self.eyes for buckets in eye.open])
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        for eye in self.eyes:
            eye.close()


class CardNetworks:
    """Everything that a recipe of one swapper, one restorer, or both runs, for batches of `batch` frames, by stage.

    swapper: its model; None for mesh-warp, which is kernels and no network, and takes neither precision nor settings,
    and where there is none. restorer: behind it, or alone. sight: the eyes, which stay open when this is closed; None
    opens some of its own. Raises OutOfMemoryError where the device is full, RecipeError where a network cannot be run
    there; then nothing stays open but `sight`.
    """

    def __init__(
        self,
        device: Device,
        models: Weights,
        swapper: str | None,
        precision: str | None,
        batch: int,
        settings: SwapSettings | None,
        *,
        restorer: Restoring | None = None,
        sight: Sight | None = None,
    ) -> None:
        self.batch = batch
        self._owns_sight = sight is None
        self._sight = Sight(device, models, batch) if sight is None else sight
        self.eyes = self._sight.eyes
        self._stages: list[Stage] = []
        try:
            self.hand, self.fetch, self.feed, self.aside = (self._stage(device, models, name) for name in _STAGES)
            self._swapper: Opened | None = None
            if swapper is not None:
                needed = SwapStep.pictures_needed(models.catalogue.spec(swapper), settings or SwapSettings())
                self._swapper = self.hand.network(
                    swapper, (batch, max(1, batch // 4)), max(batch, needed), precision=precision
                )
            self._restorer: Opened | None = None
            if restorer is not None:
                # A run is one crop's milliseconds of large kernels: recording it would bring nothing.
                self._restorer = self.hand.network(
                    restorer.model, (1,), ROOM, precision=restorer.precision, tuning=GRAPHLESS
                )
            if self.hand.open:
                ready(self.hand.open)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        for stage in self._stages:
            stage.close()
        if self._owns_sight:
            self._sight.close()

    @property
    def swapper(self) -> Opened:
        """The recipe's; RecipeError where it has no network."""
        if self._swapper is None:
            raise RecipeError("The recipe's swapper is no network.", where="the card's path", do="Report it.")
        return self._swapper

    @property
    def restorer(self) -> Opened:
        """The recipe's; RecipeError where it has none."""
        if self._restorer is None:
            raise RecipeError("The recipe has no restorer.", where="the card's path", do="Report it.")
        return self._restorer

    @property
    def provider(self) -> str:
        """What runs the networks."""
        return (self._swapper or self._restorer or self.eyes[0].detector).buckets.provider

    def fill(self) -> dict[str, float]:
        """Share of the samples computed that was asked for, by network, since the networks were opened."""
        eye = self.eyes[0]
        told = {"detector": eye.detector, "landmarks": eye.landmarker}
        if self._swapper is not None:
            told["swapper"] = self._swapper
        return {name: round(opened.buckets.fill, 3) for name, opened in told.items()}

    def used(self) -> list[dict[str, Any]]:
        """For the attempt's record: each network, its precision, what was asked for and what really runs it."""
        return [*self.eyes[0].uses, *self.hand.uses]

    def _stage(self, device: Device, models: Weights, name: str) -> Stage:
        made = Stage(device, models, name=name)
        self._stages.append(made)
        return made


def looking_source(source: Source, device: str) -> Source:
    """The graph that looks at frames on `device`: in half precision but for its heads on a card, as it is elsewhere.

    Rounding to half precision on a processor costs time instead of saving it.
    """
    return half_bytes(source, heads=True) if device == CARD else source
