"""A portrait as the head builder needs it: cut-out texture, 478 landmarks, a relief and how much of it is head."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray

from farm.errors import NotFoundError, unknown

PORTRAITS = Path(__file__).resolve().parent / "portraits"
IDENTITIES = ("astronaut", "grace_hopper")

FACE_OVAL = (
    *(10, 338, 297, 332, 284, 251, 389, 356, 454, 323, 361, 288, 397, 365, 379, 378, 400, 377),
    *(152, 148, 176, 149, 150, 136, 172, 58, 132, 93, 234, 127, 162, 21, 54, 103, 67, 109),
)
"""The outline of the 478-point face, closed, in picture order."""

CELLS_ACROSS_FACE = 46
STEEPEST = 1.35
"""Depth a step along rows and columns (8 % more in between). Below cot(33°) = 1.54 the relief turned by up to 33° never
folds over itself, so that every picture point has exactly one portrait point: no holes, no cracks."""

Floats = NDArray[np.float32]
Points = NDArray[np.float64]


def floats(values: ArrayLike) -> Floats:
    """`values` as a float32 array."""
    return np.asarray(values, np.float32)


@dataclass(frozen=True, slots=True)
class Portrait:
    """One person.

    Attributes
    ----------
    identity: name of the portrait ("astronaut").
    picture: the untouched portrait file.
    colour: float32 (h, w, 3) BGR 0..255, colours extended past the outline so that no background shines in.
    matte: float32 (h, w) 0..1.
    scale: texture pixels a portrait pixel.
    landmarks: float64 (478, 2), portrait pixels.
    cell: portrait pixels a grid cell; `depth`, `weight` and `shade_normal` are sampled at (column, row) × cell.
    depth: float32 (gh, gw), portrait pixels, away from the camera; 0 is the middle of the face.
    weight: float32 (gh, gw), 1 where the head moves the picture, 0 where the body does.
    pivot: (x, y, z) that the head turns about.
    """

    identity: str
    picture: Path
    colour: Floats
    matte: Floats
    scale: float
    landmarks: Points
    cell: float
    depth: Floats
    weight: Floats
    pivot: tuple[float, float, float]

    @property
    def face_width(self) -> float:
        oval = self.landmarks[list(FACE_OVAL), 0]
        return float(oval.max() - oval.min())

    @property
    def chin(self) -> float:
        return float(self.landmarks[152, 1])


def portrait_picture(identity: str) -> Path:
    """The untouched portrait file of `identity`; NotFoundError names those there are."""
    return PORTRAITS / str(_description(identity)["picture"])


@lru_cache(maxsize=4)
def load_portrait(identity: str) -> Portrait:
    """Read and prepare one of `IDENTITIES`."""
    facts = _description(identity)
    scale = float(facts["texture_scale"])
    matte = floats(_read(PORTRAITS / str(facts["matte"]), cv2.IMREAD_GRAYSCALE)) / np.float32(255)
    texture = _read(PORTRAITS / str(facts["texture"]), cv2.IMREAD_COLOR).astype(np.float32)
    points = np.asarray(facts["landmarks"], np.float64)
    oval = points[list(FACE_OVAL)]
    width = float(np.ptp(oval[:, 0]))
    cell = width / CELLS_ACROSS_FACE
    grid = (int(matte.shape[0] / scale / cell) + 1, int(matte.shape[1] / scale / cell) + 1)
    solid = floats(cv2.resize(matte, (grid[1], grid[0]), interpolation=cv2.INTER_AREA))
    head = _above(np.asarray(facts["head_line"], np.float64) / cell, grid)
    depth = _relief(points, solid, head, cell, width)
    return Portrait(
        identity=identity,
        picture=PORTRAITS / str(facts["picture"]),
        colour=_extend_colours(texture, matte),
        matte=matte,
        scale=scale,
        landmarks=points[:, :2],
        cell=cell,
        depth=depth,
        weight=_head_weight(head, 0.5 * width / cell),
        pivot=(float(oval[:, 0].mean()), float(points[152, 1] - 0.2 * width), 0.5 * width),
    )


def _description(identity: str) -> dict[str, Any]:
    if identity not in IDENTITIES:
        raise unknown(NotFoundError, "portrait", identity, IDENTITIES)
    loaded: dict[str, Any] = json.loads((PORTRAITS / f"{identity}.json").read_text())
    return loaded


def _read(path: Path, flags: int) -> NDArray[np.uint8]:
    picture = cv2.imread(str(path), flags)
    if picture is None:
        raise NotFoundError(
            "The portrait file is missing or damaged.", where=path.name, do="Install the package again."
        )
    return np.asarray(picture, np.uint8)


def _extend_colours(texture: Floats, matte: Floats) -> Floats:
    """Colours of the solid inside, carried over the soft edge (normalised convolution at growing widths)."""
    solid = cv2.erode((matte > 0.97).astype(np.float32), np.ones((3, 3), np.uint8))
    carried = texture * solid[..., None]
    known = solid.copy()
    for sigma in (1.5, 4.0, 12.0):
        wide, weight = cv2.GaussianBlur(carried, (0, 0), sigma), cv2.GaussianBlur(known, (0, 0), sigma)
        fill = (known < 0.5) & (weight > 1e-3)
        carried[fill] = wide[fill] / weight[fill][:, None]
        known[fill] = 1
    keep = np.clip((matte - 0.8) / 0.18, 0, 1)[..., None]
    return floats(carried * (1 - keep) + texture * keep)


def _above(line: Points, grid: tuple[int, int]) -> NDArray[np.bool_]:
    """Cells above the polyline `line` (x, y in cells) that runs from left to right under the jaw."""
    columns, rows = np.arange(grid[1]), np.arange(grid[0])
    return np.asarray(rows[:, None] < np.interp(columns, line[:, 0], line[:, 1])[None, :])


def _head_weight(head: NDArray[np.bool_], reach: float) -> Floats:
    """1 in the head, falling smoothly to 0 at `reach` cells below it: the neck twists instead of breaking."""
    away = cv2.distanceTransform((~head).astype(np.uint8), cv2.DIST_L2, 5)
    fall = np.clip(1 - away / reach, 0, 1)
    smooth = fall * fall * (3 - 2 * fall)
    return floats(cv2.GaussianBlur(smooth.astype(np.float32), (0, 0), reach / 6))


def _relief(points: Points, solid: Floats, head: NDArray[np.bool_], cell: float, width: float) -> Floats:
    """Depth of every cell: the landmarks' own in the face, an inflated skin over hair, neck and chest around it.

    Solves the Poisson equation with the bulge of a sphere as right-hand side; the face's landmarks and the outline
    are held. The result is limited to `STEEPEST`.
    """
    held = np.zeros(solid.shape, np.float32)
    value = np.zeros(solid.shape, np.float32)
    inside = (solid > 0.5).astype(np.uint8)
    edge = (inside == 0) | (cv2.erode(inside, np.ones((3, 3), np.uint8)) == 0)
    value[edge] = np.where(head[edge], 0.55, 0.45) * width
    held[edge] = 1
    chin = points[152]
    for down in (0.12, 0.3):
        _hold(held, value, chin[0] / cell, (chin[1] + down * width) / cell, (0.3 + 0.1 * down) * width)
    for x, y, z in points[:468]:
        _hold(held, value, x / cell, y / cell, z)
    bulge = np.where(head, 2.4, 0.4).astype(np.float32) * np.float32(cell * cell / width)
    depth = _poisson(held, value, bulge)
    return _limit_slope(floats(cv2.GaussianBlur(depth, (0, 0), 1.0)), STEEPEST * cell)


def _hold(held: Floats, value: Floats, x: float, y: float, z: float) -> None:
    row, column = round(y), round(x)
    if 0 <= row < held.shape[0] and 0 <= column < held.shape[1]:
        value[row, column] = z
        held[row, column] = 1


def _poisson(held: Floats, value: Floats, bulge: Floats) -> Floats:
    """Coarse to fine Jacobi; `bulge` is the Laplacian wanted per cell²."""
    height, width = held.shape
    field = np.full((2, 2), float(value[held > 0].mean()), np.float32)
    for step in (8, 4, 2, 1):
        size = (max(width // step, 2), max(height // step, 2))
        weight = cv2.resize(held, size, interpolation=cv2.INTER_AREA)
        known = cv2.resize(held * value, size, interpolation=cv2.INTER_AREA)
        fixed = weight > 1e-6
        target = np.divide(known, weight, out=np.zeros_like(known), where=fixed)
        field = floats(cv2.resize(field, size, interpolation=cv2.INTER_LINEAR))
        # the 8-neighbour mean of a paraboloid with Laplacian b stands 0.375 b above its middle
        sink = floats(cv2.resize(bulge, size, interpolation=cv2.INTER_AREA) * (0.375 * step * step))
        for _ in range(80):
            field[fixed] = target[fixed]
            around = cv2.blur(field, (3, 3), borderType=cv2.BORDER_REPLICATE) * 9 - field
            field = floats(around / 8 - sink)
        field[fixed] = target[fixed]
    return field


def _limit_slope(depth: Floats, step: float) -> Floats:
    """The largest field below `depth` that rises at most `step` a cell (min-convolution with a cone)."""
    limited = depth.copy()
    for _ in range(max(depth.shape) // 4):
        padded = np.pad(limited, 1, mode="edge")
        sides = np.minimum(
            np.minimum(padded[:-2, 1:-1], padded[2:, 1:-1]), np.minimum(padded[1:-1, :-2], padded[1:-1, 2:])
        )
        corners = np.minimum(np.minimum(padded[:-2, :-2], padded[2:, 2:]), np.minimum(padded[:-2, 2:], padded[2:, :-2]))
        lower = np.minimum(sides + step, corners + step * np.float32(np.sqrt(2)))
        if np.all(lower >= limited):
            break
        limited = np.minimum(limited, lower)
    return floats(cv2.GaussianBlur(limited, (0, 0), 0.8))
