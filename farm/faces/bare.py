"""The bare face in a picture: hair, hats and background taken out of an unrolled face and filled with its own skin."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from farm.faces.texture import Mask, Texture, atlas, blurred, skin_coloured

_FILL_SIGMAS = (1.5, 3.0, 6.0, 12.0, 24.0)


def bare_skin(texture: Texture) -> Mask:
    """Where an unrolled face shows its own bare skin or features: one connected area, below the fringe.

    Going up from the brows, all that lies behind the first hair counts as hair, however much its colour is like skin.
    """
    place = atlas(len(texture))
    features = np.maximum.reduce([place.middle, place.brows, cv2.dilate(place.eyes, np.ones((7, 7), np.uint8))])
    mask = np.maximum(skin_coloured(texture), features * place.inside).astype(np.float32)
    brow = int(np.flatnonzero(place.brows.max(axis=1) > 0.5)[0])
    top = mask[: brow + 1]
    mask[: brow + 1] = np.minimum.accumulate(top[::-1], axis=0)[::-1]
    labels = cv2.connectedComponents((mask > 0.5).astype(np.uint8))[1]
    face = labels[place.cheeks > 0.5]
    own = labels == np.bincount(face[face > 0]).argmax() if (face > 0).any() else features > 0.5
    # Hair's last pixels are mixed with skin, so the edge is not to be trusted.
    shrunk = cv2.erode((mask * own).astype(np.float32), np.ones((3, 3), np.uint8), iterations=2)
    return np.asarray(blurred(np.maximum(shrunk, features * own), len(texture) / 128), np.float32)


def bared(detail: Texture, known: Mask) -> Texture:
    """`detail` (n, n, 3) with everything outside `known` (m, m) replaced by the skin around it, smooth and featureless.

    Filled from near to far: each place takes the colour of the smallest neighbourhood that knows one.
    """
    small = np.asarray(cv2.resize(detail, known.shape[::-1], interpolation=cv2.INTER_AREA), np.float32)
    trusted = np.asarray(cv2.erode(known, np.ones((3, 3), np.uint8)), np.float32) ** 2
    total = small * trusted[..., None]
    share: NDArray[np.float32] = trusted[..., None].copy()
    for sigma in _FILL_SIGMAS:
        pixels = sigma * len(known) / 128
        near = blurred(trusted, pixels)[..., None]
        colour = blurred(small * trusted[..., None], pixels) / (near + np.float32(1e-4))
        add = (1 - share) * np.clip(near * 4, 0, 1)
        total += add * colour
        share += add
    fill = np.asarray(total / np.maximum(share, np.float32(1e-3)), np.float32)
    keep = _resized(known, len(detail))[..., None]
    return np.asarray(detail * keep + _resized(fill, len(detail)) * (1 - keep), np.float32)


def _resized(values: NDArray[np.float32], side: int) -> NDArray[np.float32]:
    return np.asarray(cv2.resize(values, (side, side), interpolation=cv2.INTER_LINEAR), np.float32)
