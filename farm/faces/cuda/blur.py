"""Gaussian blur of canvases, mirrored at their borders: `cv2.GaussianBlur` of floats with a width for each face."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np

from farm.faces.cuda.canvas import Ints, faces_of
from farm.faces.cuda.surface import Floats

ACROSS, DOWN = 0, 1


def weights_of(sigmas: Sequence[float]) -> tuple[int, Ints, Floats]:
    """The widest reach in pixels, each face's (n), and the weights (n, widest + 1) from the middle outwards."""
    kernels = [_half(sigma) for sigma in sigmas]
    most = max(len(kernel) for kernel in kernels) - 1
    table = np.zeros((len(kernels), most + 1), np.float32)
    for row, kernel in zip(table, kernels, strict=True):
        row[: len(kernel)] = kernel
    return most, np.array([len(kernel) - 1 for kernel in kernels], np.int32), table


def _half(sigma: float) -> Floats:
    """The kernel that OpenCV takes for floats, from the middle on."""
    side = round(sigma * 8 + 1) | 1
    return np.asarray(cv2.getGaussianKernel(side, sigma, cv2.CV_32F)[side // 2 :, 0], np.float32)


def blur(
    box: Ints,
    start: Ints,
    channels: int,
    step: int,
    most: int,
    radius: Ints,
    weights: Floats,
    given: Floats,
    out: Floats,
) -> None:
    """The twin: one pass, ACROSS or DOWN, over `given` (pixels, channels) into `out`."""
    for face, (height, width), some in faces_of(box, start):
        values, reach = given[some].reshape(height, width, channels), int(radius[face])
        axis = 0 if step == DOWN else 1
        count = values.shape[axis]
        padded = np.moveaxis(values, axis, 0)
        padded = np.pad(padded, [(reach, reach), (0, 0), (0, 0)], mode="reflect")
        total = padded[reach : reach + count] * weights[face, 0]
        for k in range(1, reach + 1):
            pair = padded[reach - k : reach - k + count] + padded[reach + k : reach + k + count]
            total += pair * weights[face, k]
        out[some] = np.moveaxis(total, 0, axis).reshape(out[some].shape)
