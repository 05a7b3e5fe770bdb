"""The bundled default on a card: mesh-warp of a chunk up to the encoder, against the processor's path in the same run.

Both render the same 1080p plate with one face of about 300 px, and put in a portrait or, where asked, footage.
Agreement is that of the painting alone: both paint the same faces, seen by the processor.
Prints one JSON line for each step, the last with all of them.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from bench.gpu_material import draw_plate, repeat
from farm.faces import meshwarp
from farm.faces.candidate import PictureBytes
from farm.faces.cuda.fit import surface_of
from farm.faces.cuda.mesh_plan import mesh_face
from farm.faces.cuda.mesh_step import MeshStep
from farm.faces.cuda.networks import CARD, TWIN, CardNetworks, Device
from farm.faces.cuda.overlay import Overlay
from farm.faces.cuda.pipeline import CONTEXT, CardPipeline
from farm.faces.cuda.rates import Rates
from farm.faces.footage import ClipFile
from farm.faces.identity import PreparedIdentity, prepare_identity
from farm.faces.light import target_of
from farm.faces.mapping import Mapping
from farm.faces.meshwarp import SwapSettings
from farm.faces.pipeline import FacePipeline, Rendered
from farm.faces.target import Target
from farm.faces.track import Window
from farm.faces.views import Analyst
from farm.inference import providers as ep
from farm.inference.catalogue import Catalogue
from farm.inference.session import Models
from farm.media import nvdec
from farm.media.colour import region_to_rgb
from farm.media.frame import Frame
from farm.media.probe import probe
from farm.media.reader import read_segment
from farm.media.scan import scan_timeline
from farm.media.segment import cut_segments
from farm.media.segmentdecoder import segment_decoder
from farm.provenance.label import Label
from farm.recipe import preset
from farm.sample import portrait_picture

_RECIPE = preset("swap")
_SETTINGS = SwapSettings()
_ALIKE = 8
"""Frames whose painting is compared."""


class Material:
    """The plate, who is put in, and what the two paths are made of."""

    def __init__(self, plate: Path, folder: Path, device: Device, batch: int, footage: bool) -> None:
        self.path, self.folder, self.device = plate, folder, device
        self.facts = probe(plate)
        self.timeline, self.surface = scan_timeline(plate, self.facts), surface_of(self.facts)
        self.models = Models(Catalogue.load(), providers=[device.providers[0]])
        self.plain = Models(Catalogue.load(), providers=[ep.CPU])
        pictures = [PictureBytes(portrait_picture("grace_hopper").read_bytes(), "a")]
        clips = [ClipFile(plate, "clip 1")] if footage else []
        self.person: PreparedIdentity = prepare_identity([] if footage else pictures, self.plain, clips=clips)
        self.networks = CardNetworks(device, self.models, None, None, batch, None)
        self.label = Label(self.facts.video)
        self.rates = Rates()

    def frames(self, first: int, last: int, *, on_card: bool) -> Iterator[Frame]:
        low, high = max(0, first - CONTEXT[0]), min(len(self.timeline), last + CONTEXT[1])
        folder = self.folder / f"{first}-{last}"
        segment = folder / "segment"
        if not folder.exists():
            folder.mkdir()
            wanted = type("Range", (), {"first": first, "last": last})()
            [made] = cut_segments(
                self.path, self.facts, self.timeline, [wanted], folder, before=CONTEXT[0], after=CONTEXT[1]
            )
            made.path.rename(segment)
        chosen = segment_decoder(segment, self.facts, self.timeline).name == nvdec.NVDEC if on_card else False
        threads = 1 if chosen else _cores()
        return read_segment(segment, self.facts, self.timeline, low, high, threads=threads, on_card=chosen)

    def card(self, first: int, last: int) -> Iterator[Rendered]:
        pipeline = CardPipeline(
            _RECIPE, Mapping(everyone="a"), {"a": self.person}, self.models, self.facts, self.networks, self.surface,
            overlay=Overlay.of(self.label.blends(self.surface.planar)), rates=self.rates,
        )  # fmt: skip
        return pipeline.process(self.frames(first, last, on_card=self.device.name == CARD), first, last)

    def processor(self, first: int, last: int) -> Iterator[Rendered]:
        pipeline = FacePipeline(
            _RECIPE, Mapping(everyone="a"), {"a": self.person}, self.plain, self.facts, threads=_cores()
        )
        for rendered in pipeline.process(self.frames(first, last, on_card=False), first, last):
            self.label.apply(rendered.frame)
            yield rendered


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def agreement(material: Material) -> dict[str, Any]:
    """dB where samples changed, the greatest difference, and how many samples differ outside the masks."""
    targets = list(_targets(material))
    surface, hand = material.surface, material.networks.hand
    step = MeshStep(hand.mesh, surface, _SETTINGS)
    pictures = np.zeros((len(targets), surface.rows, surface.width), surface.dtype)
    faces = []
    for place, (frame, target) in enumerate(targets):
        surface.pack(frame, pictures[place])
        seen = partial(region_to_rgb, frame)
        faces.append(mesh_face(place, surface.planar, target, material.person, None, _SETTINGS, seen))
    there = hand.kernels.empty(pictures.shape, surface.dtype)
    hand.kernels.upload(pictures, there)
    told = step.lay(there, faces, masks=True)
    made = hand.kernels.download(there)
    errors, most, outside = [], 0.0, 0
    for (frame, target), picture, face, laid in zip(targets, made, faces, told, strict=True):
        mine = surface.unpack(picture, frame)
        patch = meshwarp.swap(frame, target, material.person, _SETTINGS)
        assert patch is not None
        assert laid.mask is not None
        mask = np.zeros((frame.height, frame.width), bool)
        x0, y0, x1, y1 = face.box
        mask[y0:y1, x0:x1] = (patch.mask > 0) | (laid.mask > 0)
        half = mask.reshape(frame.height // 2, 2, frame.width // 2, 2).any(axis=(1, 3))
        padded = np.pad(half, 1)
        near = np.any(
            [padded[j : j + half.shape[0], i : i + half.shape[1]] for j in range(3) for i in range(3)], axis=0
        )
        for a, b, where in zip(mine.planes, frame.planes, (mask, near, near), strict=True):
            apart = a.astype(float) - b
            errors.append(apart[where])
            most = max(most, float(np.abs(apart[where]).max()))
            outside += int((apart[~where] != 0).sum())
    error = np.concatenate(errors)
    db = float(10 * np.log10(255**2 / max(1e-9, np.mean(error**2))))
    return {"db": db, "most": most, "outside": outside, "faces": len(targets)}


def _targets(material: Material) -> Iterator[tuple[Frame, Target]]:
    analyst = Analyst(material.plain, material.facts)
    window, frames = Window(analyst), []
    for frame in material.frames(16, 16 + _ALIKE, on_card=False):
        frames.append(frame)
        window.push(analyst.look(frame, embed=frame.index % 5 == 0))
        if frame.index == 24 + 4:
            break
    for frame in frames[len(frames) - 8 - _ALIKE : len(frames) - 8]:
        for track in window.tracks(frame.index)[:1]:
            yield frame, target_of(track, [], material.person.shape * 1.03)


def speed(material: Material, path: str, frames: int, runs: int) -> dict[str, Any]:
    """Frames a second of a chunk from its first frame in to its last out, each run with its own pipeline."""
    material.rates = Rates()
    rates, swapped = [], 0
    first = CONTEXT[0] + 1
    for _ in range(runs):
        start, cpu = time.perf_counter(), time.process_time()
        done = 0
        for rendered in getattr(material, path)(first, first + frames):
            done, swapped = done + 1, swapped + rendered.report.swapped
        taken = time.perf_counter() - start
        rates.append(done / taken)
        cores = (time.process_time() - cpu) / taken
    return {
        "fps": sorted(rates)[len(rates) // 2], "runs": rates, "frames": frames, "faces": swapped / (frames * runs),
        "cores_busy": cores, "stages_fps": material.rates.fps(),
    }  # fmt: skip


def seams(material: Material, frames: int) -> dict[str, Any]:
    """One chunk and three: how many frames differ in a sample, and by how much at most."""
    first = CONTEXT[0] + 1
    whole = list(material.card(first, first + frames))
    cuts = [first, first + frames // 3, first + frames // 2, first + frames]
    parts = [one for a, b in pairwise(cuts) for one in material.card(a, b)]
    most, differing = 0, 0
    for one, other in zip(whole, parts, strict=True):
        apart = [np.abs(a.astype(int) - b).max() for a, b in zip(one.frame.planes, other.frame.planes, strict=True)]
        most, differing = max(most, int(max(apart))), differing + (max(apart) > 0)
    return {"frames": frames, "differing": int(differing), "most": most}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plate", type=Path, help="a 1080p plate to use instead of drawing one")
    parser.add_argument("--frames", type=int, default=480)
    parser.add_argument("--processor-frames", type=int, default=96)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--twin", action="store_true", help="the card's steps computed on the processor")
    parser.add_argument("--footage", action="store_true", help="the identity is the plate's own person, as footage")
    parser.add_argument("--steps", default="agreement,card,processor,seams")
    told = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, plate = Path(name), told.plate
        if plate is None:
            plate = folder / "plate.mp4"
            draw_plate(plate)
        long = folder / "long.mp4"
        repeat(plate, long, told.frames + sum(CONTEXT) + 8)
        if not told.twin:
            nvdec.claim_primary_context()
        device = Device(TWIN, threads=_cores()) if told.twin else Device.card([ep.CUDA])
        start = time.perf_counter()
        material = Material(long, folder, device, told.batch, told.footage)
        said: dict[str, Any] = {"opened_s": time.perf_counter() - start}
        steps = {
            "agreement": lambda: agreement(material),
            "card": lambda: speed(material, "card", told.frames, told.runs),
            "processor": lambda: speed(material, "processor", told.processor_frames, told.runs),
            "seams": lambda: seams(material, 72),
        }
        for step in told.steps.split(","):
            said[step] = steps[step]()
            print(json.dumps({step: said[step]}), flush=True)
        print(json.dumps({"bench": "gpu-mesh", "identity": "footage" if told.footage else "portrait", **said}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
