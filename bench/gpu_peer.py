"""A per-frame pipeline that goes through the processor, in the order of operations that the peers publish.

For each frame: decode on the CPU to BGR; letterbox, detector; crop, landmarks; align, swap network with one face; warp
mask and crop back into the face's box and blend in float64; truncate to bytes. One frame after the other, NumPy arrays
in and out of every network. Encoding is left out on both sides.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
from numpy.typing import NDArray

from bench.peer_steps import faces_in, laid_back
from farm.faces.geometry import apply, crop_around, five_points, invert, similarity
from farm.faces.neural_masks import box_mask
from farm.inference import providers as ep
from farm.inference.opening import runtime
from farm.inference.templates import template


class Peer:
    """Sessions on the CUDA provider with its defaults, as the peers open them."""

    def __init__(self, weights: Path, swapper: Path, side: int, source: NDArray[np.float32]) -> None:
        ort = runtime()
        ort.preload_dlls()

        def session(path: Path) -> Any:
            options = {"cudnn_conv_algo_search": "EXHAUSTIVE"}
            return ort.InferenceSession(str(path), providers=[(ep.CUDA, options), ep.CPU])

        self._detector = session(weights / "yunet_2023mar_fp32.onnx")
        self._landmarker = session(weights / "face_landmarks_478_fp32.onnx")
        self._swapper = session(swapper)
        self._type = np.float16 if self._swapper.get_inputs()[0].type == "tensor(float16)" else np.float32
        self._side, self._source = side, source[None].astype(self._type)
        self._mask = box_mask(side)[0]
        self._names = [output.name for output in self._detector.get_outputs()]

    def frame(self, picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """One BGR picture with its faces swapped."""
        for box, eyes in faces_in(picture, self._detector, self._names):
            size = float(max(box[2] - box[0], box[3] - box[1]))
            affine = crop_around((box[:2] + box[2:]) / 2, size * 1.5, float(np.arctan2(eyes[1], eyes[0])), 256)
            crop = cv2.warpAffine(picture, affine, (256, 256), borderMode=cv2.BORDER_REPLICATE)
            tensor = crop[None, :, :, ::-1].astype(np.float32) / 255
            points = self._landmarker.run(["Identity"], {"input_12": tensor})[0].reshape(478, 3)[:, :2]
            picture = self._swapped(picture, five_points(apply(invert(affine), points)))
        return picture

    def _swapped(self, picture: NDArray[np.uint8], five: NDArray[np.float64]) -> NDArray[np.uint8]:
        side = self._side
        affine = similarity(five, template("arcface_128", side))
        crop = cv2.warpAffine(picture, affine, (side, side), flags=cv2.INTER_AREA, borderMode=cv2.BORDER_REPLICATE)
        tensor = np.ascontiguousarray(crop[:, :, ::-1].transpose(2, 0, 1)[None] / 255, self._type)
        made = self._swapper.run(None, {"target": tensor, "source": self._source})[0][0]
        made = made.transpose(1, 2, 0).clip(0, 1)[:, :, ::-1].astype(np.float32) * 255
        return laid_back(picture, made, affine, self._mask)


def run(plate: Path, peer: Peer, seconds: float, warm: int = 20) -> float:
    """Frames a second of the peers' way over `seconds`."""
    with av.open(str(plate)) as container:
        stream = container.streams.video[0]
        stream.thread_type = "AUTO"
        done, start = 0, 0.0
        for index, picture in enumerate(container.decode(stream)):
            peer.frame(picture.to_ndarray(format="bgr24"))
            if index == warm:
                start = time.perf_counter()
            elif index > warm:
                done += 1
                if time.perf_counter() - start >= seconds:
                    break
        return done / (time.perf_counter() - start)
