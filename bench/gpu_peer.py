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

from farm.faces.detect import decode, suppress
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
        for box, eyes in self._faces(picture):
            size = float(max(box[2] - box[0], box[3] - box[1]))
            affine = crop_around((box[:2] + box[2:]) / 2, size * 1.5, float(np.arctan2(eyes[1], eyes[0])), 256)
            crop = cv2.warpAffine(picture, affine, (256, 256), borderMode=cv2.BORDER_REPLICATE)
            tensor = crop[None, :, :, ::-1].astype(np.float32) / 255
            points = self._landmarker.run(["Identity"], {"input_12": tensor})[0].reshape(478, 3)[:, :2]
            picture = self._swapped(picture, five_points(apply(invert(affine), points)))
        return picture

    def _faces(self, picture: NDArray[np.uint8]) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        height, width = picture.shape[:2]
        factor = 640 / max(height, width)
        small = cv2.resize(picture, (round(width * factor), round(height * factor)))
        square = np.zeros((640, 640, 3), np.uint8)
        square[: small.shape[0], : small.shape[1]] = small
        tensor = np.ascontiguousarray(square.transpose(2, 0, 1)[None], np.float32)
        outputs = dict(zip(self._names, self._detector.run(None, {"input": tensor}), strict=True))
        box, five, score = decode(outputs, 0.6)
        return [(box[i] / factor, (five[i, 1] - five[i, 0]) / factor) for i in suppress(box, score)]

    def _swapped(self, picture: NDArray[np.uint8], five: NDArray[np.float64]) -> NDArray[np.uint8]:
        side = self._side
        affine = similarity(five, template("arcface_128", side))
        crop = cv2.warpAffine(picture, affine, (side, side), flags=cv2.INTER_AREA, borderMode=cv2.BORDER_REPLICATE)
        tensor = np.ascontiguousarray(crop[:, :, ::-1].transpose(2, 0, 1)[None] / 255, self._type)
        made = self._swapper.run(None, {"target": tensor, "source": self._source})[0][0]
        made = made.transpose(1, 2, 0).clip(0, 1)[:, :, ::-1].astype(np.float32) * 255
        back = invert(affine)
        corners = apply(back, np.array([[0, 0], [side, 0], [side, side], [0, side]], np.float64))
        low = np.clip(np.floor(corners.min(axis=0)).astype(int), 0, None)
        high = np.minimum(np.ceil(corners.max(axis=0)).astype(int), picture.shape[1::-1])
        area = (int(high[0] - low[0]), int(high[1] - low[1]))
        back[:, 2] -= low
        mask = cv2.warpAffine(self._mask, back, area).clip(0, 1)[..., None]
        laid = cv2.warpAffine(made, back, area, borderMode=cv2.BORDER_REPLICATE)
        result = picture.copy()
        region = result[low[1] : high[1], low[0] : high[0]].astype(np.float64)
        result[low[1] : high[1], low[0] : high[0]] = (region * (1 - mask) + laid * mask).astype(np.uint8)
        return result


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
