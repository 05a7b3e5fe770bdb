"""A neural swap on the processor against the order of operations that the peers publish, with the same networks.

The peers' way, frame by frame and face by face: decode to BGR in bytes; checksums of the frame, as many as they take;
letterbox, detector; for each face landmarks and the recogniser; align, swap network with one face; warp mask and crop
back into the face's box and blend in float64; truncate to bytes. Eight threads over frames, sessions with ONNX
Runtime's own defaults. Ours is the pipeline of a job with its defaults, tracks and hands included. Both decode, neither
encodes; both run the same files: the bundled detector, landmarker and recogniser, and one swapper stand-in.
"""

from __future__ import annotations

import statistics
import time
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
from numpy.typing import NDArray

from bench.face_jobs import open_job
from bench.peer_steps import faces_in, laid_back
from farm.faces.ahead import ahead
from farm.faces.geometry import ARCFACE_112, apply, crop_around, five_points, invert, similarity
from farm.faces.neural_identity import with_sources
from farm.faces.neural_masks import box_mask
from farm.faces.pipeline import FacePipeline
from farm.inference.opening import runtime
from farm.inference.session import Models
from farm.inference.templates import template
from farm.recipe import preset

SWAPPER, RECIPE = "inswapper-128", "swap-inswapper"
_SIDE = 128
_CHECKSUMS = 7
_PEER_THREADS, _THREADS = 8, 2

Picture = NDArray[np.uint8]


class Peer:
    """The peers' way on the processor."""

    def __init__(self, models: Models, source: NDArray[np.float32]) -> None:
        def session(name: str) -> Any:
            return runtime().InferenceSession(str(models.weights(name)), providers=["CPUExecutionProvider"])

        self._detector, self._landmarker = session("yunet"), session("face-landmarks-478")
        self._recogniser, self._swapper = session("sface"), session(SWAPPER)
        self._names = [output.name for output in self._detector.get_outputs()]
        self._source, self._mask = source, box_mask(_SIDE)[0]

    def run(self, plate: Path, frames: int) -> None:
        with av.open(str(plate)) as container, ThreadPoolExecutor(_PEER_THREADS) as pool:
            container.streams.video[0].thread_type = "AUTO"
            decoded = islice(container.decode(video=0), frames)
            pictures = (picture.to_ndarray(format="bgr24") for picture in decoded)
            for _ in ahead(pool, self.frame, pictures, _PEER_THREADS):
                pass

    def frame(self, picture: Picture) -> Picture:
        """One BGR picture with its faces swapped."""
        for _ in range(_CHECKSUMS):
            zlib.crc32(picture.data)
        for box, eyes in faces_in(picture, self._detector, self._names):
            size = float(max(box[2] - box[0], box[3] - box[1]))
            affine = crop_around((box[:2] + box[2:]) / 2, size * 1.5, float(np.arctan2(eyes[1], eyes[0])), 256)
            crop = cv2.warpAffine(picture, affine, (256, 256), borderMode=cv2.BORDER_REPLICATE)
            tensor = crop[None, :, :, ::-1].astype(np.float32) / 255
            points = self._landmarker.run(["Identity"], {"input_12": tensor})[0].reshape(478, 3)[:, :2]
            five = five_points(apply(invert(affine), points))
            known = cv2.warpAffine(picture, similarity(five, ARCFACE_112), (112, 112))
            tensor = np.ascontiguousarray(known[:, :, ::-1].transpose(2, 0, 1)[None], np.float32)
            self._recogniser.run(None, {"data": tensor})
            picture = self._swapped(picture, five)
        return picture

    def _swapped(self, picture: Picture, five: NDArray[np.float64]) -> Picture:
        side = _SIDE
        affine = similarity(five, template("arcface_128", side))
        crop = cv2.warpAffine(picture, affine, (side, side), flags=cv2.INTER_AREA, borderMode=cv2.BORDER_REPLICATE)
        tensor = np.ascontiguousarray(crop[None, :, :, ::-1].transpose(0, 3, 1, 2) / 255, np.float32)
        output = self._swapper.run(None, {"target": tensor, "source": self._source})[0][0]
        made = np.asarray(output.transpose(1, 2, 0).clip(0, 1)[:, :, ::-1] * 255, np.float32)
        return laid_back(picture, made, affine, self._mask)


def ratio(plate: Path, models: Models, *, frames: int, repeats: int = 3) -> tuple[float, float]:
    """How many times as fast ours is: by the processor's time, and by the clock. Medians of paired runs."""
    job = open_job(plate, models, {"astronaut": "grace_hopper"})
    recipe = preset(RECIPE)
    told = {name: with_sources(identity, recipe, models) for name, identity in job.identities.items()}
    job = replace(job, identities=told)
    peer = Peer(models, np.full((1, 512), 1 / np.sqrt(512), np.float32))

    def theirs() -> None:
        peer.run(plate, frames)

    def mine() -> None:
        pipeline = FacePipeline(recipe, job.mapping, job.identities, models, job.facts, threads=_THREADS)
        for _ in pipeline.process((frame for frame in job.plate() if frame.index < frames), 0, frames):
            pass

    pairs = [(_taken(theirs), _taken(mine)) for _ in range(repeats + 1)][1:]  # the first pays for cold caches
    return (
        statistics.median(theirs[0] / mine[0] for theirs, mine in pairs),
        statistics.median(theirs[1] / mine[1] for theirs, mine in pairs),
    )


def _taken(work: Callable[[], None]) -> tuple[float, float]:
    """Seconds of all processors, and of the clock."""
    clock, processor = time.perf_counter(), time.process_time()
    work()
    return time.process_time() - processor, time.perf_counter() - clock
