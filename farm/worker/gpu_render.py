"""A slot's neural swap on one card: networks, frame memory and the line, kept warm from chunk to chunk."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from farm.faces.cuda.device import CudaKernels, cupy
from farm.faces.cuda.lane import BatchPool, FrameBatch, lane
from farm.faces.cuda.look import CADENCE, Looker
from farm.faces.cuda.seen import Found
from farm.faces.cuda.surface import Surface
from farm.faces.cuda.swap import Faces, SwapSettings, SwapStep
from farm.inference.bound import Source, open_bound
from farm.inference.buckets import Buckets, ready
from farm.inference.spec import ModelSpec
from farm.worker.gpu_line import StageTimes, run_line

Choose = Callable[[Found], Faces]
"""Which of the found faces are swapped, and with which source vector."""

Part = tuple[int | None, int | None]
"""First and end pts of a lane; None for the plate's own."""

_SPARE_BATCHES = 4
"""Batches in the queues and stages beside one a lane."""


@dataclass(frozen=True)
class Network:
    """Weights and contract of one network, the fixed batch sizes it is opened with, and provider options of its own."""

    source: Source
    spec: ModelSpec
    batches: tuple[int, ...]
    tuning: Mapping[str, str] = field(default_factory=dict)


class GpuRender:
    """Everything that one recipe needs on the card for plates of one surface.

    `times` says where the time went; `record` what ran where, for the attempt.

    Parameters
    ----------
    batch: frames in a batch. rough: the landmarker of the first pass, where it is another one. lanes: parts of a plate
        that are decoded side by side. lookers: batches that are looked at side by side, each with networks of its own.
    """

    def __init__(
        self,
        surface: Surface,
        detector: Network,
        landmarker: Network,
        swapper: Network,
        *,
        batch: int,
        providers: Sequence[str],
        rough: Network | None = None,
        settings: SwapSettings | None = None,
        lanes: int = 1,
        lookers: int = 1,
        cadence: int = CADENCE,
    ) -> None:
        settings = settings or SwapSettings()
        self.surface, self.batch = surface, batch
        self._hand = CudaKernels()
        self._eyes = [_Eyes(surface, detector, landmarker, rough, batch, providers, cadence) for _ in range(lookers)]
        most = max(batch, SwapStep.pictures_needed(swapper.spec, settings))
        self.swapper = _opened(swapper, most, self._hand, providers)
        ready([*(made for eyes in self._eyes for made in eyes.buckets), self.swapper])
        self._step = SwapStep(self._hand, surface, self.swapper, swapper.spec, settings)
        self.pool = BatchPool(self._hand, surface, batch, lanes + lookers + _SPARE_BATCHES)
        self.times = StageTimes()
        seen, level = self._eyes[0].buckets[:2]
        self.record = {
            told.spec.name: made.provider
            for told, made in ((detector, seen), (landmarker, level), (swapper, self.swapper))
        }

    def close(self) -> None:
        for buckets in (*(made for eyes in self._eyes for made in eyes.buckets), self.swapper):
            buckets.close()

    def run(self, path: Path, decoder: str, parts: Sequence[Part], choose: Choose) -> Generator[FrameBatch, None, None]:
        """Swapped batches, each part's in order; give each back to `pool`. No more parts than lanes were made for."""

        def swap(batch: FrameBatch) -> None:
            self._hand.handle.wait_event(batch.ready)
            if batch.found is not None:
                self._step.apply(batch.array, choose(batch.found))
            batch.done = cupy().cuda.Event(block=True, disable_timing=True)
            batch.done.record(self._hand.handle)

        lanes = [lane(path, decoder, self.pool, first=first, last=last) for first, last in parts]
        self.pool.start()
        looks = [eyes.look for eyes in self._eyes]
        line = run_line(lanes, looks, swap, lambda batch: batch.done.synchronize(), self.times)
        try:
            yield from line
        finally:
            # Lanes that wait for memory which nobody will give back any more must hear of the end first.
            self.pool.stop()
            line.close()


class _Eyes:
    """One looker with its networks, on a stream of its own."""

    def __init__(
        self,
        surface: Surface,
        detector: Network,
        landmarker: Network,
        rough: Network | None,
        batch: int,
        providers: Sequence[str],
        cadence: int,
    ) -> None:
        # Looking is little work in many small pieces; behind the swapper's large ones it would wait for each.
        self._kernels = CudaKernels(urgent=True)
        seen = _opened(detector, max(detector.batches), self._kernels, providers)
        level = _opened(landmarker, batch, self._kernels, providers)
        first = _opened(rough, max(rough.batches), self._kernels, providers) if rough is not None else None
        pair = (seen, detector.spec), (level, landmarker.spec)
        self._looker = Looker(self._kernels, surface, *pair, rough=first, cadence=cadence)
        self.buckets = [made for made in (seen, level, first) if made is not None]

    def look(self, batch: FrameBatch) -> None:
        self._kernels.handle.wait_event(batch.ready)
        batch.found = self._looker.look(batch.array, len(batch), first=batch.first, peek=batch.peek)


def _opened(network: Network, capacity: int, kernels: CudaKernels, providers: Sequence[str]) -> Buckets:
    opened = [
        open_bound(
            network.source,
            size,
            requested=providers,
            stream=kernels.stream,
            name=network.spec.name,
            tuning=network.tuning,
        )
        for size in network.batches
    ]
    return Buckets(opened, capacity, kernels.empty, warm=False)


def everyone(source: NDArray[np.float32]) -> Choose:
    """Every face becomes the one identity whose vector (k,) is given."""

    def choose(found: Found) -> Faces:
        return Faces.plain(found.frame_of, found.five, np.broadcast_to(source, (len(found), len(source))))

    return choose
