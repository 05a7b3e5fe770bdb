"""Chunks of a job on the card, one after the other as a slot renders them: frames a second, stages, and memory.

python -m bench.gpu_chunks '{"plate": ..., "model": ..., "variant": ..., "batch": 32, "chunks": 200, "frames": 48}'
"""

from __future__ import annotations

import json
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
from farm.faces.cuda.networks import CardNetworks, Device
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

    def __init__(self, swapper: str, path: Path) -> None:
        super().__init__(Catalogue.load(), providers=[ep.CUDA])
        self._swapper, self._path = swapper, path

    def weights(self, name: str, precision: str | None = None) -> Path:
        return self._path if name == self._swapper else super().weights(name, precision)


class Range:
    def __init__(self, first: int, last: int) -> None:
        self.first, self.last = first, last


def run(told: dict[str, Any]) -> dict[str, Any]:
    """Render the same chunk again and again, each as a new chunk: its own decoder, pipeline and window."""
    nvdec.claim_primary_context()
    plate, name = Path(told["plate"]), SHAPES[told["variant"]].model
    models = BenchModels(name, Path(told["model"]))
    recipe = Recipe(name="bench", processors=(ProcessorSpec(kind="swap", model=name, settings={}),))
    settings = NeuralSwapSettings()
    spec = models.catalogue.spec(name)
    side = spec.input("target").size
    networks = CardNetworks(Device.card([ep.CUDA]), models, name, None, told["batch"], step_settings(settings, side))
    person = prepare_identity([PictureBytes(portrait_picture("astronaut").read_bytes(), "a")], models)
    person = replace(person, sources={source_key(spec, None): identity()[None].astype(np.float32)})
    facts = probe(plate)
    timeline, surface = scan_timeline(plate, facts), surface_of(facts)
    overlay = Overlay.of(Label(facts.video).blends(surface.planar))
    first, last = CONTEXT[0] + 1, CONTEXT[0] + 1 + told["frames"]
    rates, memory, seconds, frames = Rates(), [], 0.0, 0
    with tempfile.TemporaryDirectory() as folder:
        [segment] = cut_segments(
            plate, facts, timeline, [Range(first, last)], Path(folder), before=CONTEXT[0], after=CONTEXT[1]
        )
        decoder = segment_decoder(segment.path, facts, timeline)
        for chunk in range(told["chunks"]):
            pipeline = CardPipeline(
                recipe, Mapping(everyone="a"), {"a": person}, models, facts, networks, surface, overlay=overlay,
                rates=rates,
            )  # fmt: skip
            on_card = decoder.name == nvdec.NVDEC
            low, high = first - CONTEXT[0], last + CONTEXT[1]
            given = read_segment(segment.path, facts, timeline, low, high, threads=8, on_card=on_card)
            start, swapped = time.perf_counter(), 0
            for rendered in pipeline.process(ahead(given, 2), first, last):
                swapped += rendered.report.swapped
            if chunk >= _SETTLED:
                seconds += time.perf_counter() - start
                frames += last - first
            memory.append(vram_mib())
    return {
        "decoder": decoder.name, "decoder_why": decoder.why, "fps": frames / seconds if seconds else 0.0,
        "swapped": swapped, "stages_fps": rates.fps(), "settled_mib": memory[min(_SETTLED, len(memory) - 1)],
        "last_mib": memory[-1], "most_mib": max(memory), "chunks": len(memory), "frames": told["frames"],
    }  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(run(json.loads(sys.argv[1]))), flush=True)
