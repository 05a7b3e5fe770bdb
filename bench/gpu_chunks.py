"""Chunks of a job on the card, one after the other as a slot renders them: frames a second, stages, and memory.

python -m bench.gpu_chunks '{"plate": ..., "model": ..., "variant": ..., "batch": 32, "rounds": [[3, 480], [200, 48]]}'
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bench.gpu_material import identity
from bench.gpu_networks import SHAPES
from bench.gpu_slot import vram_mib
from farm.faces.candidate import PictureBytes
from farm.faces.cuda.fit import surface_of
from farm.faces.cuda.networks import CARD, TWIN, CardNetworks, Device
from farm.faces.cuda.overlay import Overlay
from farm.faces.cuda.painter import step_settings
from farm.faces.cuda.pipeline import CONTEXT, CardPipeline
from farm.faces.cuda.rates import Rates
from farm.faces.identity import prepare_identity
from farm.faces.mapping import Mapping
from farm.faces.neural_identity import source_key
from farm.faces.neural_settings import NeuralSwapSettings
from farm.inference import providers as ep
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
from farm.worker.stages import ahead

_SETTLED = 10


class BenchModels(Models):
    """The bundled models, and one file of the bench in a swapper's place."""

    def __init__(self, swapper: str, path: Path, provider: str) -> None:
        super().__init__(Catalogue.load(), providers=[provider])
        self._swapper, self._path = swapper, path

    def weights(self, name: str, precision: str | None = None) -> Path:
        return self._path if name == self._swapper else super().weights(name, precision)


class Range:
    def __init__(self, first: int, last: int) -> None:
        self.first, self.last = first, last


class Slot:
    """What a slot keeps open from chunk to chunk, for one recipe, one mapping and one plate."""

    def __init__(self, told: dict[str, Any]) -> None:
        nvdec.claim_primary_context()
        self.plate, name = Path(told["plate"]), SHAPES[told["variant"]].model
        device = Device(TWIN) if told.get("twin") else Device.card([ep.CUDA])
        self.measured = device.name == CARD
        self.models = BenchModels(name, Path(told["model"]), device.providers[0])
        self.recipe = Recipe(name="bench", processors=(ProcessorSpec(kind="swap", model=name, settings={}),))
        spec = self.models.catalogue.spec(name)
        settings = step_settings(NeuralSwapSettings(), spec.input("target").size)
        start = time.perf_counter()
        self.networks = CardNetworks(device, self.models, name, None, told["batch"], settings)
        self.opening = time.perf_counter() - start
        person = prepare_identity([PictureBytes(portrait_picture("astronaut").read_bytes(), "a")], self.models)
        self.person = replace(person, sources={source_key(spec, None): identity()[None].astype(np.float32)})
        self.facts = probe(self.plate)
        self.timeline, self.surface = scan_timeline(self.plate, self.facts), surface_of(self.facts)
        self.overlay = Overlay.of(Label(self.facts.video).blends(self.surface.planar))

    def pipeline(self, rates: Rates) -> CardPipeline:
        return CardPipeline(
            self.recipe, Mapping(everyone="a"), {"a": self.person}, self.models, self.facts, self.networks,
            self.surface, overlay=self.overlay, rates=rates,
        )  # fmt: skip

    def chunks(self, count: int, size: int, folder: Path) -> dict[str, Any]:
        """Render the same chunk of `size` frames `count` times, each as a new one: own decoder, pipeline and window."""
        first, last = CONTEXT[0] + 1, CONTEXT[0] + 1 + size
        [segment] = cut_segments(
            self.plate, self.facts, self.timeline, [Range(first, last)], folder, before=CONTEXT[0], after=CONTEXT[1]
        )
        decoder = segment_decoder(segment.path, self.facts, self.timeline)
        on_card = decoder.name == nvdec.NVDEC
        rates, memory, speeds, swapped = Rates(), [], [], 0
        for _ in range(count):
            low, high = first - CONTEXT[0], last + CONTEXT[1]
            given = read_segment(segment.path, self.facts, self.timeline, low, high, threads=8, on_card=on_card)
            start = time.perf_counter()
            swapped = sum(one.report.swapped for one in self.pipeline(rates).process(ahead(given, 2), first, last))
            speeds.append(size / (time.perf_counter() - start))
            memory.append(vram_mib() if self.measured else 0)
            print(f"chunk of {size}: {speeds[-1]:.0f} frames/s, {memory[-1]} MiB", file=sys.stderr, flush=True)
        return {
            "decoder": decoder.name, "decoder_why": decoder.why, "fps": statistics.median(speeds), "swapped": swapped,
            "stages_fps": rates.fps(), "settled_mib": memory[min(_SETTLED, count - 1)], "last_mib": memory[-1],
            "most_mib": max(memory), "chunks": count, "frames": size,
        }  # fmt: skip


def run(told: dict[str, Any]) -> dict[str, Any]:
    """Each of `rounds`, (chunks, frames), and how long the networks took to open."""
    slot = Slot(told)
    rounds = []
    for number, (count, size) in enumerate(told["rounds"]):
        with tempfile.TemporaryDirectory() as folder:
            rounds.append(slot.chunks(count, size, Path(folder)))
            print(number, json.dumps(rounds[-1]), file=sys.stderr, flush=True)
    return {"opening_s": slot.opening, "rounds": rounds}


if __name__ == "__main__":
    print(json.dumps(run(json.loads(sys.argv[1]))), flush=True)
