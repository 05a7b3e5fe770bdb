"""Who it is: SFace embeddings of aligned 112-pixel crops."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from farm.faces.geometry import ARCFACE_112, similarity
from farm.faces.network import Network

SIZE = 128
"""Length of an embedding."""

SAME_PERSON = 0.363
"""Cosine similarity above which two pictures show one person (the recogniser's published threshold)."""

Embedding = NDArray[np.float32]
"""float32[128] of unit length."""


class Embedder:
    def __init__(self, network: Network) -> None:
        self._network = network

    def __call__(self, picture: NDArray[np.uint8], five: NDArray[np.floating]) -> Embedding:
        """Embedding of the face with `five` points (5, 2) in a BGR picture (h, w, 3)."""
        return self.of(self.crop(picture, five))

    @staticmethod
    def crop(picture: NDArray[np.uint8], five: NDArray[np.floating]) -> NDArray[np.uint8]:
        """The face aligned, BGR (112, 112, 3)."""
        return np.asarray(cv2.warpAffine(picture, similarity(five, ARCFACE_112), (112, 112)), np.uint8)

    def of(self, crop: NDArray[np.uint8]) -> Embedding:
        """Embedding of an aligned face."""
        tensor = np.ascontiguousarray(crop[:, :, ::-1].transpose(2, 0, 1), np.float32)[None]
        return unit(self._network.run(data=tensor)["fc1"].reshape(-1))


def unit(vector: NDArray[np.floating]) -> Embedding:
    """`vector` with length 1 (a zero vector stays zero)."""
    length = float(np.linalg.norm(vector))
    return (np.asarray(vector, np.float32) / np.float32(length)) if length > 0 else np.zeros(len(vector), np.float32)


def robust_mean(embeddings: NDArray[np.float32], *, least: float = 0.3) -> tuple[Embedding, NDArray[np.bool_]]:
    """Mean direction of embeddings (n, 128) of one person, and which of them (n,) belong to it.

    The picture that is most like all others starts the group; those with a similarity under `least` to the group's
    mean are left out. With two pictures that disagree the first one is kept.
    """
    alike = embeddings @ embeddings.T
    start = int(np.argmax(np.median(alike, axis=1)))
    kept = alike[start] >= least
    for _ in range(3):
        mean = unit(embeddings[kept].mean(axis=0))
        kept = (embeddings @ mean) >= least
        if not kept.any():
            kept[start] = True
    return unit(embeddings[kept].mean(axis=0)), kept
