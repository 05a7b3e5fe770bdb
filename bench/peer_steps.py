"""Steps of the peers' published order of operations that both of the benchmarks' copies of it take."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from farm.faces.detect import decode, suppress
from farm.faces.geometry import apply, invert

Picture = NDArray[np.uint8]


def faces_in(
    picture: Picture, detector: Any, names: list[str]
) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Box and the way from eye to eye of each face of a BGR picture, found in a letterbox of 640 pixels."""
    height, width = picture.shape[:2]
    factor = 640 / max(height, width)
    small = cv2.resize(picture, (round(width * factor), round(height * factor)))
    square = np.zeros((640, 640, 3), np.uint8)
    square[: small.shape[0], : small.shape[1]] = small
    tensor = np.ascontiguousarray(square.transpose(2, 0, 1)[None], np.float32)
    outputs = dict(zip(names, detector.run(None, {"input": tensor}), strict=True))
    box, five, score = decode(outputs, 0.6)
    return [(box[i] / factor, (five[i, 1] - five[i, 0]) / factor) for i in suppress(box, score)]


def laid_back(
    picture: Picture, made: NDArray[np.float32], affine: NDArray[np.float64], mask: NDArray[np.float32]
) -> Picture:
    """A copy of the picture with a crop (side, side, 3; BGR 0..255) laid back through `affine`, which cut it out."""
    side = mask.shape[0]
    back = invert(affine)
    corners = apply(back, np.array([[0, 0], [side, 0], [side, side], [0, side]], np.float64))
    low = np.clip(np.floor(corners.min(axis=0)).astype(int), 0, None)
    high = np.minimum(np.ceil(corners.max(axis=0)).astype(int), picture.shape[1::-1])
    area = (int(high[0] - low[0]), int(high[1] - low[1]))
    back[:, 2] -= low
    cover = cv2.warpAffine(mask, back, area).clip(0, 1)[..., None]
    laid = cv2.warpAffine(made, back, area, borderMode=cv2.BORDER_REPLICATE)
    result = picture.copy()
    region = result[low[1] : high[1], low[0] : high[0]].astype(np.float64)
    result[low[1] : high[1], low[0] : high[0]] = (region * (1 - cover) + laid * cover).astype(np.uint8)
    return result
