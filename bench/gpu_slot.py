"""One slot of the GPU benchmark: what a job's chunks run, from a segment to frames in memory, up to the encoder.

`python -m bench.gpu_slot '{"plate": ..., "batch": 32, "frames": 480}'` reads orders, one JSON line each, and answers
each with one:

    {"alone": seconds, "model": ..., "runs": n}     samples a second of the network by itself
    {"open": variant, "model": ...}                 opens the slot with that network, and warms it
    {"run": seconds}                                frames a second over that time
    {"stages": seconds}                             milliseconds on the card by kind of work
    {"chunks": count, "frames": n}                  chunks one after the other, and the memory after them
    {"mp4": seconds, "to": FILE, "behind": bool}    frames a second to a finished film, or of its encoder by itself
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bench.gpu_material import identity
from bench.gpu_networks import SHAPES
from bench.gpu_stages import StageEvents
from farm.faces.candidate import PictureBytes
from farm.faces.cuda.compiled import cupy
from farm.faces.cuda.device import CudaKernels
from farm.faces.cuda.fit import surface_of
from farm.faces.cuda.networks import CARD, CHOSEN, TWIN, CardNetworks, Device, Sight
from farm.faces.cuda.overlay import Overlay
from farm.faces.cuda.painter import step_settings
from farm.faces.cuda.pipeline import CONTEXT, CardPipeline
from farm.faces.cuda.rates import Rates
from farm.faces.identity import PreparedIdentity, prepare_identity
from farm.faces.mapping import Mapping
from farm.faces.neural_identity import source_key
from farm.faces.neural_settings import NeuralSwapSettings
from farm.faces.pipeline import Rendered
from farm.inference import providers as ep
from farm.inference.bound import open_bound
from farm.inference.buckets import Buckets
from farm.inference.catalogue import Catalogue
from farm.inference.session import Models
from farm.media import nvdec
from farm.media.probe import probe
from farm.media.reader import read_segment
from farm.media.scan import scan_timeline
from farm.media.segment import cut_segments
from farm.media.segmentdecoder import segment_decoder
from farm.provenance.label import Label
from farm.recipe import ProcessorSpec, Recipe
from farm.sample import portrait_picture

_WARM_FRAMES = 256
_SETTLED = 10


class BenchModels(Models):
    """The bundled models, and files of the bench in swappers' places."""

    def __init__(self, provider: str) -> None:
        super().__init__(Catalogue.load(), providers=[provider])
        self.files: dict[str, Path] = {}

    def weights(self, name: str, precision: str | None = None) -> Path:
        return self.files.get(name) or super().weights(name, precision)


@dataclass(frozen=True)
class Range:
    first: int
    last: int


class Slot:
    """What a slot keeps open from chunk to chunk, for one plate, everybody in it and one swapper at a time."""

    def __init__(self, plate: Path, batch: int, frames: int, folder: Path, *, twin: bool = False) -> None:
        self.plate, self.batch, self.folder = plate, batch, folder
        self.device = Device(TWIN, threads=8) if twin else Device.card([ep.CUDA])
        self.models = BenchModels(self.device.providers[0])
        person = [PictureBytes(portrait_picture("astronaut").read_bytes(), "a")]
        self.person: PreparedIdentity = prepare_identity(person, self.models)
        self.facts = probe(plate)
        self.timeline, self.surface = scan_timeline(plate, self.facts), surface_of(self.facts)
        self.overlay = Overlay.of(Label(self.facts.video).blends(self.surface.planar))
        self.rates = Rates()
        self._sight: Sight | None = None
        self._networks: CardNetworks | None = None
        self._chunks: dict[int, tuple[Range, Path, nvdec.DecoderChoice]] = {}
        self.chunk(frames)

    def chunk(self, frames: int) -> tuple[Range, Path, nvdec.DecoderChoice]:
        """A chunk of so many frames, where its segment lies, and what decodes it."""
        if frames not in self._chunks:
            wanted = Range(CONTEXT[0] + 1, min(CONTEXT[0] + 1 + frames, len(self.timeline) - CONTEXT[1]))
            folder = self.folder / str(frames)
            folder.mkdir()
            [segment] = cut_segments(
                self.plate, self.facts, self.timeline, [wanted], folder, before=CONTEXT[0], after=CONTEXT[1]
            )
            choice = nvdec.DecoderChoice(nvdec.CPU, "a twin")
            if self.device.name == CARD:
                choice = segment_decoder(segment.path, self.facts, self.timeline)
            self._chunks[frames] = wanted, segment.path, choice
        return self._chunks[frames]

    def open(self, variant: str, model: Path) -> CardNetworks:
        """The swapper, beside the eyes of the one before."""
        if self._networks is not None:
            self._networks.close()
        name = SHAPES[variant].model
        self.models.files = {name: model}
        spec = self.models.catalogue.spec(name)
        self.recipe = Recipe(name="bench", processors=(ProcessorSpec(kind="swap", model=name, settings={}),))
        settings = step_settings(NeuralSwapSettings(), spec.input("target").size)
        self.mapped = replace(self.person, sources={source_key(spec, None): identity()[None].astype(np.float32)})
        if self._sight is None:
            self._sight = Sight(self.device, self.models, self.batch)
        self._networks = CardNetworks(self.device, self.models, name, None, self.batch, settings, sight=self._sight)
        return self._networks

    def frames(self, frames: int) -> Generator[Rendered, None, None]:
        """The chunk rendered once, as a job does: own decoder, own pipeline."""
        assert self._networks is not None
        wanted, segment, choice = self.chunk(frames)
        pipeline = CardPipeline(
            self.recipe, Mapping(everyone="a"), {"a": self.mapped}, self.models, self.facts, self._networks,
            self.surface, overlay=self.overlay, rates=self.rates,
        )  # fmt: skip
        low, high = wanted.first - CONTEXT[0], wanted.last + CONTEXT[1]
        on_card = choice.name == nvdec.NVDEC
        given = read_segment(
            segment, self.facts, self.timeline, low, high, threads=1 if on_card else 8, on_card=on_card
        )
        yield from pipeline.process(given, wanted.first, wanted.last)

    def endless(self, frames: int) -> Generator[Rendered, None, None]:
        """That chunk again and again."""
        while True:
            yield from self.frames(frames)

    def run(self, frames: int, seconds: float) -> dict[str, Any]:
        """Frames a second over `seconds`, from the first frames on."""
        self.rates = Rates()
        done = swapped = 0
        start = 0.0
        with closing(self.endless(frames)) as rendered:
            for number, one in enumerate(rendered):
                if number == 2 * self.batch:
                    start = time.perf_counter()
                elif number > 2 * self.batch:
                    done += 1
                    swapped += one.report.swapped
                    if time.perf_counter() - start >= seconds:
                        break
            taken = time.perf_counter() - start
        return {"fps": done / taken, "faces": swapped / done, "frames": done, **self.told(frames)}

    def chunks(self, count: int, frames: int) -> dict[str, Any]:
        """Chunks one after the other, each with its decoder and pipeline: frames a second of each, and memory."""
        self.rates = Rates()
        speeds, memory = [], []
        for _ in range(count):
            start = time.perf_counter()
            made = sum(1 for _ in self.frames(frames))
            speeds.append(made / (time.perf_counter() - start))
            memory.append(self.vram_mib())
        return {
            "fps": statistics.median(speeds), "first": speeds[0], "chunks": count, "frames": frames,
            "settled_mib": memory[min(_SETTLED, count - 1)], "last_mib": memory[-1], "most_mib": max(memory),
            **self.told(frames),
        }  # fmt: skip

    def told(self, frames: int) -> dict[str, Any]:
        _, _, choice = self.chunk(frames)
        return {
            "stages_fps": self.rates.fps(), "decoder": choice.name, "decoder_why": choice.why,
            "vram_mib": self.vram_mib(),
        }  # fmt: skip

    def vram_mib(self) -> int:
        """What the whole card has in use, as this process sees it."""
        if self.device.name != CARD:
            return 0
        free, total = cupy().cuda.runtime.memGetInfo()
        return int((total - free) >> 20)


def network_alone(source: Path, name: str, batch: int, seconds: float, runs: int) -> list[float]:
    """Samples a second of a network by itself, at the same batch and settings, bound to the card's memory."""
    kernels = CudaKernels()
    network = open_bound(source, batch, requested=[ep.CUDA], stream=kernels.stream, name=name, tuning=CHOSEN)
    buckets = Buckets([network], batch, kernels.empty)
    with kernels.handle:
        for port in network.inputs:
            buckets.arrays[port.name][...] = cupy().random.random(port.shape, dtype=np.float32)
    for _ in range(10):
        buckets.run(batch)
    kernels.wait()
    rates = []
    for _ in range(runs):
        start, done = time.perf_counter(), 0
        while time.perf_counter() - start < seconds:
            for _ in range(4):
                buckets.run(batch)
            kernels.wait()
            done += 4
        rates.append(done * batch / (time.perf_counter() - start))
    buckets.close()
    kernels.release()
    return rates


def answer(slot: Slot, order: dict[str, Any], frames: int) -> dict[str, Any]:
    """What an order asks for, done."""
    if "alone" in order:
        rates = network_alone(Path(order["model"]), "swapper", slot.batch, order["alone"], order["runs"])
        return {"alone": statistics.median(rates)}
    if "open" in order:
        start = time.perf_counter()
        slot.open(order["open"], Path(order["model"]))
        opened = time.perf_counter() - start
        slot.run(_WARM_FRAMES, 0.1)
        return {"opening_s": opened, "vram_mib": slot.vram_mib()}
    if "run" in order:
        return slot.run(frames, order["run"])
    if "stages" in order:
        assert slot._networks is not None
        with StageEvents(slot._networks) as events:
            made = slot.run(frames, order["stages"])
        batches = made["frames"] / slot.batch
        return {"fps": made["fps"], "ms": {name: spent / batches for name, spent in events.milliseconds().items()}}
    if "mp4" in order:
        from bench.gpu_encode import encoder_alone, to_mp4

        path = Path(order["to"])
        return {"fps": (to_mp4 if order["behind"] else encoder_alone)(slot, frames, path, order["mp4"])}
    return slot.chunks(order["chunks"], order["frames"])


def main() -> None:
    told: dict[str, Any] = json.loads(sys.argv[1])
    if not told.get("twin"):
        nvdec.claim_primary_context()
    with tempfile.TemporaryDirectory() as folder:
        slot = Slot(Path(told["plate"]), told["batch"], told["frames"], Path(folder), twin=told.get("twin", False))
        for line in sys.stdin:
            print(json.dumps(answer(slot, json.loads(line), told["frames"])), flush=True)


if __name__ == "__main__":
    main()
