"""Faces unrolled: every face, however turned, in the same square of canonical texture coordinates.

In that square one pixel is one place on the skin, so that faces can be averaged over time, compared, masked and
matched in colour without minding pose or size.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from farm.faces import mesh
from farm.faces.mesh import VERTICES, canonical_mesh, rasterise

SIZE = 128
"""Side of the square in which faces are analysed."""

Mask = NDArray[np.float32]
"""float32[n, n] in 0..1."""

Texture = NDArray[np.float32]
"""float32[n, n, 3], RGB 0..1."""

_CHEEKS = ((50, 205, 36, 47, 119), (280, 425, 266, 277, 348), (6, 197, 195, 48, 278))
_ONE_MAP: Any = None
"""x and y are in one array; there is no second one."""
_NOSTRILS = (98, 97, 2, 326, 327, 278, 4, 48)
_SHADE = (0.13, 0.21)
"""How much darker than the cheeks skin may be in the shade, as a share of CIE L* + 16, to which all shades of one skin
are about proportional: above the brows, where hair falls, and below them. Each counts as one tolerance."""
_BELOW = (0.29, 0.39)
"""Rows, as a share of the side, over which the one passes into the other."""


@dataclass(frozen=True, slots=True)
class Atlas:
    """The square of one size and the places in it.

    Attributes
    ----------
    inside: where the face is. corners, weights: for each such pixel the triangle's vertices and barycentric weights.
    edge: distance to the outline, as a share of the side.
    eyes, brows, lips: the features. mouth: what lies inside the lips, with their rim. cheeks: skin that is nearly
        always bare. core: the features and what lies between them, which belong to the face whatever their colour.
        middle: the core without what lies around the brows.
    """

    size: int
    inside: NDArray[np.bool_]
    corners: NDArray[np.int32]
    weights: NDArray[np.float32]
    edge: Mask
    eyes: Mask
    brows: Mask
    lips: Mask
    mouth: Mask
    cheeks: Mask
    core: Mask
    middle: Mask

    @property
    def features(self) -> Mask:
        """Where colour says little about the light: eyes, brows and lips, with a margin."""
        return _features(self.size)


@cache
def atlas(size: int = SIZE) -> Atlas:
    raster = rasterise(canonical_mesh().uv * size - 0.5, (size, size))
    inside = raster.inside
    distance = cv2.distanceTransform(inside.astype(np.uint8), cv2.DIST_L2, 5) / np.float32(size)
    eyes = np.maximum(_filled(mesh.RIGHT_EYE, size), _filled(mesh.LEFT_EYE, size))
    brows = np.maximum(_filled(mesh.RIGHT_BROW, size), _filled(mesh.LEFT_BROW, size))
    gaze = (*mesh.RIGHT_BROW, *mesh.LEFT_BROW, *mesh.RIGHT_EYE, *mesh.LEFT_EYE)
    lower = _hull((33, 263, *mesh.OUTER_LIPS, *_NOSTRILS), size, grow=2 * size // 128)
    middle = np.maximum.reduce([_hull(gaze, size, grow=size // 128), cv2.dilate(eyes, _disc(3 * size // 128)), lower])
    return Atlas(
        size=size,
        inside=inside,
        corners=raster.triangles[raster.ids[inside]],
        weights=raster.barycentric()[inside],
        edge=np.asarray(distance, np.float32),
        eyes=eyes,
        brows=brows,
        lips=_filled(mesh.OUTER_LIPS, size),
        mouth=np.asarray(cv2.dilate(_filled(mesh.INNER_LIPS, size), _disc(size // 170)), np.float32),
        cheeks=np.maximum.reduce([_hull(ids, size, grow=size // 128) for ids in _CHEEKS]),
        core=np.maximum(_hull(gaze, size, grow=3 * size // 128), middle),
        middle=np.asarray(middle, np.float32),
    )


@cache
def _features(size: int) -> Mask:
    place = atlas(size)
    grown = cv2.dilate(place.eyes, _disc(size // 64))
    return np.clip(grown + blurred(place.brows, size / 128) + 0.8 * place.lips, 0, 1).astype(np.float32)


def unwrap(
    picture: NDArray[np.floating] | NDArray[np.uint8], points: NDArray[np.floating], size: int = SIZE
) -> Texture:
    """The face with landmarks `points` (>=468, >=2; pixels of `picture`) unrolled.

    `picture` is (h, w, 3) RGB, float 0..1 or uint8; beyond its border it is continued with its edge.
    """
    place = atlas(size)
    spot = np.full((size, size, 2), -1, np.float32)
    corner = np.asarray(points, np.float32)[:VERTICES, :2][place.corners]
    spot[place.inside] = (corner * place.weights[..., None]).sum(axis=1)
    out = sampled(picture, spot).astype(np.float32)
    if picture.dtype == np.uint8:
        out /= np.float32(255)
    return np.asarray(out * place.inside[..., None], np.float32)


def skin(texture: Texture) -> Mask:
    """How much each place of a texture is bare skin or belongs to the face whatever its colour (`Atlas.core`)."""
    place = atlas(len(texture))
    return np.maximum(skin_coloured(texture), place.core * place.inside).astype(np.float32)


def skin_coloured(texture: Texture) -> Mask:
    """How much each place of a texture looks like the bare skin of the same face.

    Colour model: CIE Lab, centred on the cheeks, with tolerances that grow with the cheeks' own spread, and that are
    wider for what is darker: a cheek's shaded side is skin. Hair, glasses' frames, hats, brows and what lies beside the
    face come out low.
    """
    place = atlas(len(texture))
    lab = np.asarray(cv2.cvtColor(np.clip(texture, 0, 1), cv2.COLOR_RGB2LAB), np.float32)
    sample = lab[place.cheeks > 0.5]
    centre = np.median(sample, axis=0)
    spread = 1.48 * np.median(np.abs(sample - centre), axis=0)
    tolerance = np.maximum(1.5 * spread, np.array([7.8, 5.0, 6.0])).astype(np.float32)
    light, a, b = np.moveaxis((blurred(lab, len(texture) / 128) - centre) / tolerance, 2, 0)
    shade = np.maximum(1, _shade(len(texture)) * ((centre[0] + 16) / tolerance[0]))
    distance = np.sqrt((light / np.where(light < 0, shade, 1)) ** 2 + a**2 + b**2)
    bare = 1 - smoothstep(distance, 1.8, 2.8)
    return np.asarray(cv2.morphologyEx(bare, cv2.MORPH_CLOSE, _disc(len(texture) // 42)), np.float32)


@cache
def _shade(size: int) -> Mask:
    """`_SHADE` by rows (size, 1)."""
    row = np.arange(size, dtype=np.float32)[:, None] / size
    above, below = _SHADE
    return np.asarray(above + (below - above) * smoothstep(row, *_BELOW), np.float32)


def shading(texture: Texture, weight: Mask, sigma: float) -> Texture:
    """The texture's light and tone (n, n, c): blurred by `sigma` (share of the side), each place counting `weight`."""
    weight = weight[..., None]
    both = blurred(np.concatenate([texture * weight, weight], axis=2), sigma * len(texture))
    return np.asarray(both[..., :-1] / (both[..., -1:] + np.float32(1e-4)), np.float32)


def sampled(picture: NDArray[Any], spot: NDArray[np.float32], *, cubic: bool = False) -> NDArray[Any]:
    """`picture` at the pixel positions `spot` (h, w, 2; x, y), continued with its edge beyond its border."""
    mode = cv2.INTER_CUBIC if cubic else cv2.INTER_LINEAR
    both = np.ascontiguousarray(spot)
    return np.asarray(cv2.remap(picture, both, _ONE_MAP, mode, borderMode=cv2.BORDER_REPLICATE))


def blurred(values: NDArray[np.float32], sigma: float) -> NDArray[np.float32]:
    """Gaussian blur of a picture (h, w) or (h, w, c), mirrored at its borders."""
    height, width = values.shape[:2]
    if height == width and 16 * sigma > height:
        # Reaching over half of a square, two matrix products are several times as fast; one channel at a time they are
        # small enough for the calling thread alone.
        matrix = _blur_matrix(height, round(float(sigma), 6))
        channels = np.ascontiguousarray(values.reshape(height, width, -1).transpose(2, 0, 1))
        made = matrix @ channels @ matrix.T
        return np.asarray(np.ascontiguousarray(made.transpose(1, 2, 0)).reshape(values.shape), np.float32)
    return np.asarray(cv2.GaussianBlur(values, (0, 0), sigma), np.float32)


@lru_cache(maxsize=32)
def _blur_matrix(side: int, sigma: float) -> NDArray[np.float32]:
    """What blurs a column of `side` values (side, side)."""
    kernel = cv2.getGaussianKernel(round(8 * sigma + 1) | 1, sigma, cv2.CV_32F)
    return np.asarray(cv2.sepFilter2D(np.eye(side, dtype=np.float32), -1, np.ones(1, np.float32), kernel), np.float32)


def smoothstep(values: NDArray[np.floating], low: float, high: float) -> NDArray[np.float32]:
    """0 below `low`, 1 above `high`, smooth between."""
    t = np.clip((values - low) / (high - low), 0, 1)
    return np.asarray(t * t * (3 - 2 * t), np.float32)


def filled_outline(points: NDArray[np.floating], shape: tuple[int, int]) -> Mask:
    """The area inside a closed outline (n, 2), anti-aliased, on a canvas (h, w)."""
    canvas = np.zeros(shape, np.uint8)
    cv2.fillPoly(canvas, [np.round(np.asarray(points)[:, :2] * 16).astype(np.int32)], 255, cv2.LINE_AA, 4)
    return canvas.astype(np.float32) / np.float32(255)


def _filled(vertices: tuple[int, ...], size: int) -> Mask:
    return filled_outline(canonical_mesh().uv[list(vertices)] * size - 0.5, (size, size))


def _hull(vertices: tuple[int, ...], size: int, *, grow: int) -> Mask:
    outline = np.asarray(cv2.convexHull(canonical_mesh().uv[list(vertices)] * size - 0.5), np.float32)[:, 0]
    return np.asarray(cv2.dilate(filled_outline(outline, (size, size)), _disc(max(1, grow))), np.float32)


def _disc(radius: int) -> NDArray[np.uint8]:
    side = 2 * max(1, radius) + 1
    return np.asarray(cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (side, side)), np.uint8)
