"""x264 veryfast alone, and behind the card: frames a second to a finished mp4."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

from bench.gpu_material import RATE, SIZE, identity, parts, render
from farm.faces.cuda.device import CudaKernels
from farm.media import nvdec
from farm.worker.gpu_render import everyone

Pictures = Iterable[NDArray[np.uint8]]


def encode(pictures: Pictures, path: Path, seconds: float, warm: int = 96) -> float:
    """Frames a second of encoding NV12 pictures (1620, 1920), measured from picture `warm` on."""
    start, done = 0.0, 0
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream("libx264", rate=RATE)
        stream.width, stream.height, stream.pix_fmt = *SIZE, "nv12"
        stream.options = {"preset": "veryfast"}
        for index, picture in enumerate(pictures):
            frame = av.VideoFrame.from_ndarray(picture, format="nv12")
            frame.pts, frame.time_base = index, Fraction(1, RATE)
            container.mux(stream.encode(frame))
            if index == warm:
                start = time.perf_counter()
            elif index > warm:
                done += 1
                if time.perf_counter() - start >= seconds:
                    break
        rate = done / (time.perf_counter() - start)
        container.mux(stream.encode(None))
    return rate


def encoder_alone(plate: Path, path: Path, seconds: float) -> float:
    """The plate's own pictures from memory, so that nothing but the encoder works."""
    held = []
    for picture in nvdec.pictures(plate, nvdec.CPU):
        held.append(_joined(picture))
        if len(held) == 240:
            break

    def again() -> Pictures:
        while True:
            yield from held

    return encode(again(), path, seconds)


class ToMp4:
    """Decode, look, swap and composite on the card, then x264 on the processors; warm from run to run."""

    def __init__(self, told: dict[str, Any]) -> None:
        nvdec.claim_primary_context()
        self._told = told
        self._slot = render(told["variant"], Path(told["model"]), batch=told["batch"], lanes=1)
        self._fetch = CudaKernels()

    def run(self, path: Path, seconds: float) -> float:
        """Frames a second."""
        with closing(self._made()) as pictures:
            return encode(pictures, path, seconds)

    def _made(self) -> Generator[NDArray[np.uint8], None, None]:
        told, slot = self._told, self._slot
        batches = slot.run(Path(told["plate"]), nvdec.NVDEC, parts(told["keys"], 1), everyone(identity()))
        with closing(batches):
            for batch in batches:
                pictures = self._fetch.download(batch.array[: len(batch)])
                slot.pool.give_back(batch)
                yield from pictures


def _joined(picture: Any) -> NDArray[np.uint8]:
    width = SIZE[0]
    rows = [np.frombuffer(p, np.uint8).reshape(p.height, p.line_size)[:, :width] for p in picture.planes]
    return np.concatenate(rows)
