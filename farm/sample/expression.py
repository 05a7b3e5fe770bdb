"""What a face does with lids, gaze and jaw: one warp of the portrait, and where the landmarks go with it."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from farm.sample.portrait import FACE_OVAL, Floats, Points

# Landmark rows, each in picture order from left to right.
_EYES = (
    # upper lid, lower lid, lower edge of the brow, iris (middle and four rim points)
    (
        (33, 246, 161, 160, 159, 158, 157, 173, 133),
        (33, 7, 163, 144, 145, 153, 154, 155, 133),
        (46, 53, 52, 65, 55),
        (468, 469, 470, 471, 472),
    ),
    (
        (362, 398, 384, 385, 386, 387, 388, 466, 263),
        (362, 382, 381, 380, 374, 373, 390, 249, 263),
        (285, 295, 282, 283, 276),
        (473, 474, 475, 476, 477),
    ),
)
_UPPER_INNER_LIP = (78, 191, 80, 81, 82, 13, 312, 311, 310, 415, 308)
_LOWER_INNER_LIP = (78, 95, 88, 178, 87, 14, 317, 402, 318, 324, 308)
_CAVITY = np.array((24, 18, 44), np.float32)
_TONGUE = np.array((66, 58, 118), np.float32)
_TEETH = np.array((146, 178, 218), np.float32)


@dataclass(frozen=True, slots=True)
class Expression:
    """Lids 0 open … 1 closed ("left" is the picture's left eye), jaw 0 as in the portrait … 1 wide open,
    gaze -1 … 1 to the picture's left … right."""

    lid_left: float = 0.0
    lid_right: float = 0.0
    jaw: float = 0.0
    gaze: float = 0.0


class FaceWarp:
    """Applies expressions to one portrait.

    Parameters
    ----------
    texture: uint8 (h, w, 4) premultiplied BGRA.
    scale: texture pixels a portrait pixel.
    landmarks: float64 (478, 2), portrait pixels.
    """

    def __init__(self, texture: NDArray[np.uint8], scale: float, landmarks: Points) -> None:
        self._texture = texture
        self._eyes = tuple(_Eye(landmarks, eye, scale) for eye in _EYES)
        self._jaw = _Jaw(landmarks, scale)
        self._landmarks = landmarks

    def texture(self, expression: Expression) -> NDArray[np.uint8]:
        """The portrait's texture with this expression."""
        out = self._texture.copy()
        for eye, lid in zip(self._eyes, (expression.lid_left, expression.lid_right), strict=True):
            eye.paint(out, lid, expression.gaze)
        self._jaw.paint(out, expression.jaw)
        return out

    def landmarks(self, expression: Expression) -> Points:
        """Where the 478 landmarks lie with this expression, portrait pixels."""
        points = self._landmarks.copy()
        for eye, lid in zip(self._eyes, (expression.lid_left, expression.lid_right), strict=True):
            eye.move(points, lid, expression.gaze)
        self._jaw.move(points, expression.jaw)
        return points


class _Eye:
    """The upper lid slides down over an eye that stays: skin above it is stretched, the eye below it is covered."""

    def __init__(self, landmarks: Points, rows: tuple[tuple[int, ...], ...], scale: float) -> None:
        upper, lower, brow, self._iris = (list(row) for row in rows)
        self._upper_row = upper
        self._scale = scale
        self._left, self._right = float(landmarks[upper[0], 0]), float(landmarks[upper[-1], 0])
        self._middle = float(landmarks[self._iris[0], 0])
        self._lines = tuple(landmarks[row] for row in (upper, lower, brow))
        top = float(self._lines[2][:, 1].min())
        bottom = float(self._lines[1][:, 1].max()) + 2
        self._box = tuple(round(value * scale) for value in (self._left - 1, top - 1, self._right + 2, bottom))

    def _at(self, x: Points) -> tuple[Points, Points, Points]:
        """(top of the moving skin, open lid line, closed lid line) at columns `x`."""
        upper, lower, brow = (np.interp(x, line[:, 0], line[:, 1]) for line in self._lines)
        fade = np.clip(4 * np.minimum(x - self._left, self._right - x) / (self._right - self._left), 0, 1)
        closed = upper + (lower - upper + 0.3) * fade
        return upper - 0.45 * (upper - brow), upper, closed

    def _gaze_shift(self, x: Points, gaze: float) -> Points:
        """How far the eyeball's surface moves at column `x`: most at the iris, nothing at the corners."""
        half = np.where(x < self._middle, self._middle - self._left, self._right - self._middle)
        bump = np.clip(1 - ((x - self._middle) / half) ** 2, 0, 1) ** 2
        return np.asarray(gaze * 0.16 * (self._right - self._left) * bump)

    def paint(self, texture: NDArray[np.uint8], lid: float, gaze: float) -> None:
        if lid <= 0 and gaze == 0:
            return
        x0, y0, x1, y1 = self._box
        columns, rows = np.arange(x0, x1) / self._scale, np.arange(y0, y1)[:, None] / self._scale
        top, upper, closed = self._at(columns)
        line = upper + lid * (closed - upper)
        eye_x = np.broadcast_to(columns - self._inverse_gaze(columns, gaze), (len(rows), len(columns)))
        skin_y = top + (rows - top) * (upper - top) / np.maximum(line - top, 1e-6)
        source = texture[max(y0 - 2, 0) : y1 + 2, max(x0 - 2, 0) : x1 + 2].copy()
        origin = (max(x0 - 2, 0), max(y0 - 2, 0))
        skin = _sample(
            source, np.broadcast_to(columns, skin_y.shape), np.maximum(skin_y, rows * 0), self._scale, origin
        )
        ball = _sample(source, eye_x, np.broadcast_to(rows, skin_y.shape), self._scale, origin)
        # the ball turns inside the open lids only
        lower = np.interp(columns, self._lines[1][:, 0], self._lines[1][:, 1])
        inside = _soft(rows - upper, self._scale) * _soft(lower - rows, self._scale)
        still = texture[y0:y1, x0:x1].astype(np.float32)
        open_eye = still + (ball - still) * inside[..., None]
        covered = (_soft(line - rows, self._scale) * (rows > top) if lid > 0 else np.zeros_like(skin_y))[..., None]
        texture[y0:y1, x0:x1] = np.clip(open_eye + (skin - open_eye) * covered + 0.5, 0, 255).astype(np.uint8)

    def _inverse_gaze(self, x: Points, gaze: float) -> Points:
        """Shift of the point that ends up at column `x`."""
        shift = self._gaze_shift(x, gaze)
        for _ in range(6):
            shift = self._gaze_shift(x - shift, gaze)
        return shift

    def move(self, points: Points, lid: float, gaze: float) -> None:
        points[self._iris, 0] += self._gaze_shift(points[self._iris, 0], gaze)
        x, y = points[:468, 0], points[:468, 1]
        top, upper, closed = self._at(x)
        line = upper + lid * (closed - upper)
        skin = (x > self._left) & (x < self._right) & (y > top) & (y < upper)
        moved = top + (y - top) * (line - top) / np.maximum(upper - top, 1e-6)
        points[:468, 1] = np.where(skin, moved, y)
        points[self._upper_row, 1] = line[self._upper_row]


class _Jaw:
    """All below the inner edge of the lower lip moves down, most at lip and chin, nothing at the mouth's corners and
    at the collar; the gap shows teeth and the dark of the mouth."""

    def __init__(self, landmarks: Points, scale: float) -> None:
        self._scale = scale
        self._lip = landmarks[list(_LOWER_INNER_LIP)]
        self._upper = landmarks[list(_UPPER_INNER_LIP)]
        self._chin = float(landmarks[152, 1])
        oval = landmarks[list(FACE_OVAL)]
        self._face = float(np.ptp(oval[:, 0]))
        self._mouth = float(self._lip[-1, 0] - self._lip[0, 0])
        self._middle = float(self._lip[5, 0])
        self._teeth_shown = float(self._lip[5, 1] - self._upper[5, 1]) > 0.06 * self._mouth
        box = (
            self._middle - 0.45 * self._face,
            float(self._upper[:, 1].min()) - 2,
            self._middle + 0.45 * self._face,
            self._chin + 0.55 * self._face,
        )
        self._box = tuple(round(value * scale) for value in box)

    def _drop(self, x: Points, y: Points, jaw: float) -> Points:
        """How far the point (x, y) of the lower face moves down."""
        lip = np.interp(x, self._lip[:, 0], self._lip[:, 1])
        below = np.clip((y - lip) / (self._chin - lip), 0, 1)
        half = 0.5 * self._mouth + below * (0.45 * self._face - 0.5 * self._mouth)
        across = np.clip(1 - ((x - self._middle) / half) ** 2, 0, 1)
        wide = across ** (0.6 + 0.9 * below)
        fall = np.clip(1 - (y - self._chin) / (0.5 * self._face), 0, 1)
        return np.asarray(jaw * 0.42 * self._mouth * wide * fall * fall * (3 - 2 * fall))

    def paint(self, texture: NDArray[np.uint8], jaw: float) -> None:
        if jaw <= 0:
            return
        x0, y0, x1, y1 = self._box
        y1 = min(y1, texture.shape[0])
        columns, rows = np.arange(x0, x1) / self._scale, np.arange(y0, y1)[:, None] / self._scale
        x = np.broadcast_to(columns, (len(rows), len(columns)))
        lip = np.interp(columns, self._lip[:, 0], self._lip[:, 1])
        open_to = lip + self._drop(columns, lip, jaw)
        start = rows + 0 * x
        y = start.copy()
        for _ in range(7):
            y = 0.3 * y + 0.7 * (start - self._drop(x, np.maximum(y, lip), jaw))
        source = texture[y0:y1, x0:x1].copy()
        lower = _sample(source, x, np.maximum(y, lip), self._scale, (x0, y0))
        still = source.astype(np.float32)
        depth = np.clip((rows - lip) / np.maximum(open_to - lip, 1e-3), 0, 1)
        gap = self._inside(depth)
        gap = np.concatenate([gap, np.full((*gap.shape[:2], 1), 255, np.float32)], axis=2)
        soft = 0.7 * self._scale
        below_lip = _soft(rows - open_to, soft)[..., None]
        cut = _soft(rows - lip, soft)[..., None]
        wide_open = np.clip((open_to - lip) * self._scale, 0, 1)[None, :, None]
        opened = lower + (gap - lower) * (1 - below_lip) * wide_open
        moved = still + (opened - still) * cut
        texture[y0:y1, x0:x1] = np.clip(moved + 0.5, 0, 255).astype(np.uint8)

    def _inside(self, depth: Points) -> Floats:
        """Colours of the mouth's inside by depth 0 (under the upper lip) … 1 (over the lower lip)."""
        at = np.clip(depth, 0, 1)[..., None].astype(np.float32)
        tongue = np.clip((at - 0.5) / 0.35, 0, 1) ** 2
        colour = _CAVITY + (_TONGUE - _CAVITY) * tongue
        if not self._teeth_shown:
            teeth = np.clip((0.34 - at) / 0.1, 0, 1)
            colour = colour + (_TEETH * (0.5 + 0.9 * at) - colour) * teeth
        return np.asarray(colour, np.float32)

    def move(self, points: Points, jaw: float) -> None:
        if jaw <= 0:
            return
        x, y = points[:468, 0], points[:468, 1]
        lip = np.interp(x, self._lip[:, 0], self._lip[:, 1])
        lower = y > lip + 1e-6
        lower[list(_LOWER_INNER_LIP)] = True
        lower[list(_UPPER_INNER_LIP)] = False
        points[:468, 1] = np.where(lower, y + self._drop(x, np.maximum(y, lip), jaw), y)


def _soft(distance: Points, scale: float) -> Points:
    """1 where `distance` (portrait pixels) is positive, one texture pixel of anti-aliasing around 0."""
    return np.asarray(np.clip(distance * scale + 0.5, 0, 1))


def _sample(
    source: NDArray[np.uint8], x: Points, y: Points, scale: float, origin: tuple[int, int]
) -> NDArray[np.float32]:
    columns = np.asarray(x * scale - origin[0], np.float32)
    rows = np.asarray(y * scale - origin[1], np.float32)
    sampled = cv2.remap(source, columns, rows, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return np.asarray(sampled, np.float32)
