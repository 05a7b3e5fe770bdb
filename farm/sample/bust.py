"""Head and shoulders of one person, turned in space and drawn over a picture."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from farm.sample.expression import Expression, FaceWarp
from farm.sample.portrait import Floats, Points, Portrait, floats

Box = tuple[int, int, int, int]

_COARSE = 4
"""Screen pixels between the points at which the portrait's coordinates are solved for; linear in between."""
_STEPS, _REACH = 8, 6.0
"""Newton steps, and the most grid cells that one may go."""


@dataclass(frozen=True, slots=True)
class Pose:
    """Where a person is and how the head is held.

    `x`, `y`: screen pixels of the head's pivot; `scale`: screen pixels a portrait pixel. Angles in degrees, 0 being the
    portrait's own pose: `yaw` > 0 turns the nose to the picture's right, `pitch` > 0 nods it down, `roll` > 0 leans the
    head to the picture's right (clockwise). `body_yaw` and `body_roll` are the shoulders'.
    """

    x: float
    y: float
    scale: float
    yaw: float = 0.0
    pitch: float = 0.0
    roll: float = 0.0
    body_yaw: float = 0.0
    body_roll: float = 0.0


def rotation(yaw: float, pitch: float, roll: float) -> Points:
    """3×3, degrees: roll · yaw · pitch in a frame with x right, y down, z away from the camera."""
    (sy, sp, sr), (cy, cp, cr) = np.sin(np.radians([yaw, pitch, roll])), np.cos(np.radians([yaw, pitch, roll]))
    turn = np.array([[cy, 0, -sy], [0, 1, 0], [sy, 0, cy]])
    nod = np.array([[1, 0, 0], [0, cp, -sp], [0, sp, cp]])
    lean = np.array([[cr, -sr, 0], [sr, cr, 0], [0, 0, 1]])
    return np.asarray(lean @ turn @ nod)


@dataclass(frozen=True, slots=True)
class Drawn:
    """What `Bust.draw` put on the picture: `alpha` is float32 (h, w) 0..1 over `box` (x0, y0, x1, y1)."""

    box: Box
    alpha: Floats


class Bust:
    """One person, ready to be drawn at about one size.

    Parameters
    ----------
    portrait: who.
    largest_scale: the largest `Pose.scale` that will be asked for; the texture is kept no finer than that needs.
    """

    def __init__(self, portrait: Portrait, largest_scale: float) -> None:
        self._portrait = portrait
        shrink = min(1.0, 1.25 * largest_scale / portrait.scale)
        self._scale = portrait.scale * shrink
        premultiplied = np.concatenate(
            [portrait.colour * portrait.matte[..., None], portrait.matte[..., None] * 255], 2
        )
        if shrink < 1:
            size = (round(premultiplied.shape[1] * shrink), round(premultiplied.shape[0] * shrink))
            premultiplied = cv2.resize(premultiplied, size, interpolation=cv2.INTER_AREA)
        self.face = FaceWarp((premultiplied + 0.5).astype(np.uint8), self._scale, portrait.landmarks)
        rows, columns = np.indices(portrait.depth.shape, np.float32)
        at_rest = np.stack([columns * portrait.cell, rows * portrait.cell, portrait.depth], 2)
        self._rest = floats(at_rest - floats(portrait.pivot))
        self._normal = _normals(portrait)
        self._placed: tuple[Pose, Floats] | None = None
        self._drawn_cells = cv2.resize(portrait.matte, portrait.depth.shape[::-1], interpolation=cv2.INTER_AREA) > 0.02

    def project(self, points: Points, pose: Pose) -> Points:
        """Screen (n, 2) of portrait points (n, 2) on the relief."""
        cells = np.asarray(points / self._portrait.cell, np.float32)
        forward = self._forward(pose)
        at = cv2.remap(forward, cells[None, :, 0], cells[None, :, 1], cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
        return np.asarray(at[0], np.float64)

    def draw(self, picture: NDArray[np.uint8], pose: Pose, expression: Expression, light: Points) -> Drawn | None:
        """Draw over `picture` (h, w, 3) BGR in place; None where nothing of the person is in it.

        `light`: (x, y, z) of a soft directional light, its length being its strength.
        """
        forward = self._forward(pose)
        box = self._box(forward, picture.shape[1], picture.shape[0])
        if box is None:
            return None
        maps = self._inverse(forward, pose, box, light)
        texture = self.face.texture(expression)
        columns, rows, shade = (np.ascontiguousarray(maps[..., channel]) for channel in range(3))
        drawn = cv2.remap(texture, columns, rows, cv2.INTER_LINEAR, borderMode=cv2.BORDER_CONSTANT)
        x0, y0, x1, y1 = box
        alpha = drawn[..., 3].astype(np.float32) * np.float32(1 / 255)
        under = picture[y0:y1, x0:x1]
        lit = cv2.multiply(drawn[..., :3], cv2.merge([shade, shade, shade]), dtype=cv2.CV_32F)
        kept = 1 - alpha
        under[:] = cv2.add(lit, cv2.multiply(under, cv2.merge([kept, kept, kept]), dtype=cv2.CV_32F), dtype=cv2.CV_8U)
        return Drawn(box, alpha)

    def _forward(self, pose: Pose) -> Floats:
        """Screen position of every grid cell, float32 (gh, gw, 2): head and body turned, blended by weight."""
        if self._placed is not None and self._placed[0] == pose:
            return self._placed[1]
        body = rotation(pose.body_yaw, 0, pose.body_roll).astype(np.float32)
        turn = rotation(pose.yaw, pose.pitch, pose.roll).astype(np.float32)
        on_body = self._rest @ body[:2].T
        on_head = self._rest @ turn[:2].T
        blended = on_body + (on_head - on_body) * self._portrait.weight[..., None]
        forward = np.asarray(blended * np.float32(pose.scale) + floats([pose.x, pose.y]), np.float32)
        self._placed = (pose, forward)
        return forward

    def _box(self, forward: Floats, width: int, height: int) -> Box | None:
        """What of the picture the drawn cells can touch, x0 and y0 on multiples of the coarse step."""
        touched = forward[self._drawn_cells]
        low, high = touched.min(0) - 4, touched.max(0) + 4
        x0, y0 = (max(0, int(value) // _COARSE * _COARSE) for value in low)
        x1, y1 = min(width, int(high[0]) + 1), min(height, int(high[1]) + 1)
        return (x0, y0, x1, y1) if x1 - x0 > 1 and y1 - y0 > 1 else None

    def _inverse(self, forward: Floats, pose: Pose, box: Box, light: Points) -> Floats:
        """Texture column, texture row and brightness for every pixel of `box`: float32 (h, w, 3).

        Newton's method on a coarse lattice; the relief is shallow enough for one solution each.
        """
        x0, y0, x1, y1 = box
        size = ((x1 - x0 - 1) // _COARSE + 2, (y1 - y0 - 1) // _COARSE + 2)
        screen = np.stack(np.meshgrid(x0 + np.arange(size[0]) * _COARSE, y0 + np.arange(size[1]) * _COARSE), 2).astype(
            np.float32
        )
        along_row, along_column = (floats(slope) for slope in np.gradient(forward, axis=(0, 1)))
        a, c, b, d = along_column[..., 0], along_column[..., 1], along_row[..., 0], along_row[..., 1]
        determinant = a * d - b * c
        # a floor under the determinant shortens the steps where the relief is seen edge-on
        least = np.float32(0.2 * (pose.scale * self._portrait.cell) ** 2)
        inverse = np.stack([d, -b, -c, a], 2) / np.maximum(determinant, least)[..., None]
        cell = np.float32(self._portrait.cell)
        middle = floats(self._portrait.pivot[:2]) / cell
        step = np.float32(1 / (pose.scale * cell))
        at = (screen - floats([pose.x, pose.y])) * step + middle
        last = floats([forward.shape[1] - 1, forward.shape[0] - 1])
        for _ in range(_STEPS):
            column, row = np.clip(at[..., 0], 0, last[0]), np.clip(at[..., 1], 0, last[1])
            here = cv2.remap(forward, column, row, cv2.INTER_LINEAR)
            slope = cv2.remap(inverse, column, row, cv2.INTER_LINEAR)
            # off the grid the picture goes on with the slope of its border
            over = at - np.stack([column, row], 2)
            miss = screen - here
            move = np.stack(
                [
                    slope[..., 0] * miss[..., 0] + slope[..., 1] * miss[..., 1],
                    slope[..., 2] * miss[..., 0] + slope[..., 3] * miss[..., 1],
                ],
                2,
            )
            at = np.asarray(at - over + np.clip(move, -_REACH, _REACH), np.float32)
        shade = cv2.remap(
            self._shade(pose, light), at[..., 0], at[..., 1], cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE
        )
        coarse = np.concatenate([at * (cell * np.float32(self._scale)), shade[..., None]], 2)
        fine = floats([[1 / _COARSE, 0, 0], [0, 1 / _COARSE, 0]])
        flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
        return np.asarray(
            cv2.warpAffine(coarse, fine, (x1 - x0, y1 - y0), flags=flags, borderMode=cv2.BORDER_REPLICATE)
        )

    def _shade(self, pose: Pose, light: Points) -> Floats:
        """Brightness of every cell under `light`, relative to the portrait's own light."""
        seen = rotation(pose.yaw, pose.pitch, pose.roll).T @ light
        body = rotation(pose.body_yaw, 0, pose.body_roll).T @ light
        head, rest = self._normal @ seen.astype(np.float32), self._normal @ body.astype(np.float32)
        shade = 1 + rest + (head - rest) * self._portrait.weight
        return np.asarray(np.clip(shade, 0.5, 1.5), np.float32)


def _normals(portrait: Portrait) -> Floats:
    """Unit normals towards the camera, less the frontal one, of the relief smoothed to what light shows."""
    smooth = cv2.GaussianBlur(portrait.depth, (0, 0), 2.0)
    down, right = np.gradient(smooth, portrait.cell)
    normal = np.stack([right, down, -np.ones_like(right)], 2)
    normal[..., :2] *= -1
    normal /= np.linalg.norm(normal, axis=2, keepdims=True)
    return np.asarray(normal - floats([0, 0, -1]), np.float32)
