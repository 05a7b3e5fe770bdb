"""The bare face in a picture: hair, hats and background taken out of an unrolled face and filled with its own skin."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from farm.faces.mesh import VERTICES, canonical_mesh
from farm.faces.texture import SIZE, Mask, Texture, atlas, blurred, shading, skin_coloured, smoothstep

_FILL_SIGMAS = (1.5, 3.0, 6.0, 12.0, 24.0)
_LIPS_SIGMA, _SKIN = 0.012, np.float32(0.03)
_EDGE_ON = (0.05, 0.2)
"""How far a place must face the camera to be told from what lies beside the head, 0 edge-on to 1."""


def bare_skin(texture: Texture) -> Mask:
    """Where an unrolled face shows its own bare skin or features: one connected area, below the fringe.

    Going up from the brows, all that lies behind the first hair counts as hair, however much its colour is like skin.
    """
    place = atlas(len(texture))
    features = (place.middle * place.inside).astype(np.float32)
    mask = np.maximum(skin_coloured(texture), features).astype(np.float32)
    brow = int(np.flatnonzero(place.brows.max(axis=1) > 0.5)[0])
    top = mask[: brow + 1]
    mask[: brow + 1] = np.minimum.accumulate(top[::-1], axis=0)[::-1]
    labels = cv2.connectedComponents((mask > 0.5).astype(np.uint8))[1]
    face = labels[place.cheeks > 0.5]
    own = labels == np.bincount(face[face > 0]).argmax() if (face > 0).any() else features > 0.5
    # Hair's last pixels are mixed with skin, so the edge is not to be trusted.
    shrunk = cv2.erode((mask * own).astype(np.float32), np.ones((3, 3), np.uint8), iterations=2)
    return np.asarray(blurred(np.maximum(shrunk, features * own), len(texture) / 128), np.float32)


def in_view(skin: Mask, points: NDArray[np.floating]) -> Mask:
    """`skin` without what a face with landmarks `points` (>=468, 3) shows edge-on, where ears and background appear."""
    place = atlas(len(skin))
    shown = smoothstep(facing(points, len(skin)), *_EDGE_ON)
    return np.asarray(skin * np.maximum(shown, place.core), np.float32)


def facing(points: NDArray[np.floating], size: int = SIZE) -> Mask:
    """How far each place of a face with landmarks `points` (>=468, 3) is turned to the camera, -1 to 1 (size, size)."""
    triangles, place = canonical_mesh().triangles, atlas(size)
    corner = np.asarray(points, np.float64)[:VERTICES, :3][triangles]
    normal = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
    towards = np.zeros((VERTICES, 3))
    np.add.at(towards, triangles.ravel(), np.repeat(normal, 3, axis=0))
    turned = -towards[:, 2] / (np.linalg.norm(towards, axis=1) + 1e-9)
    out = np.zeros((size, size), np.float32)
    out[place.inside] = (turned[place.corners] * place.weights).sum(axis=1)
    return blurred(out, 1.5 * size / 128)


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
    return without_teeth(np.asarray(detail * keep + _resized(fill, len(detail)) * (1 - keep), np.float32))


def without_teeth(detail: Texture) -> Texture:
    """`detail` (n, n, 3) with lips where the mouth's inside is, which stays the plate's; its rim would be seen."""
    place = atlas(len(detail))
    mouth, outside = place.mouth, np.asarray(place.inside * (1 - place.mouth), np.float32)
    # In the corners there is skin beside the mouth and hardly any lip.
    around = shading(detail, np.asarray(outside * np.maximum(place.lips, _SKIN), np.float32), _LIPS_SIGMA)
    return np.asarray(detail + (around - detail) * blurred(mouth, len(detail) / 512)[..., None], np.float32)


def _resized(values: NDArray[np.float32], side: int) -> NDArray[np.float32]:
    return np.asarray(cv2.resize(values, (side, side), interpolation=cv2.INTER_LINEAR), np.float32)
