"""What is around the people: a moving background, a desk in front, light that changes, and film grain."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from farm.sample.portrait import Floats, Points, floats

DESK = 0.85
"""Share of the picture's height at which the desk begins."""


class Stage:
    """Everything of the sample plate but the people, for one picture size and seed.

    Pictures are uint8 (h, w, 3) BGR.
    """

    def __init__(self, size: tuple[int, int], seed: int) -> None:
        self._width, self._height = size
        rng = np.random.default_rng([seed, 101])
        self._wall = _wall(rng, int(1.6 * self._width), int(1.1 * self._height))
        self._lamps = [
            (
                rng.uniform(-0.1, 1.1),
                rng.uniform(0.05, 0.6),
                rng.uniform(0.02, 0.05),
                rng.choice([-1, 1]) * rng.uniform(0.02, 0.05),
            )
            for _ in range(9)
        ]
        self._lamp_colours = rng.uniform((10, 25, 40), (60, 70, 80), (9, 3)).astype(np.float32)
        self._desk = _desk(rng, self._width, self._height - round(DESK * self._height))
        self._grain = _grain(rng, self._width + 64, self._height + 64)
        self._seed = seed

    def background(self, t: float) -> NDArray[np.uint8]:
        """The wall behind the people at `t` seconds: it pans, and lamps drift over it."""
        room_x, room_y = self._wall.shape[1] - self._width, self._wall.shape[0] - self._height
        left = room_x * (0.5 + 0.45 * np.sin(0.16 * t)) + 0.008 * self._width * np.sin(1.3 * t)
        top = room_y * (0.5 + 0.4 * np.sin(0.23 * t + 1))
        shift = floats([[1, 0, left], [0, 1, top]])
        flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
        picture = np.asarray(cv2.warpAffine(self._wall, shift, (self._width, self._height), flags=flags), np.uint8)
        for (x, y, radius, speed), colour in zip(self._lamps, self._lamp_colours, strict=True):
            centre = ((x + speed * t + 0.2) % 1.4 - 0.2, y + 0.01 * np.sin(0.7 * t + 9 * x))
            self._lamp(picture, centre, radius, colour)
        return picture

    def _lamp(self, picture: NDArray[np.uint8], centre: tuple[float, float], radius: float, colour: Floats) -> None:
        size = max(radius * self._width, 2.0)
        x, y = centre[0] * self._width, centre[1] * self._height
        x0, x1 = max(int(x - size - 3), 0), min(int(x + size + 4), self._width)
        y0, y1 = max(int(y - size - 3), 0), min(int(y + size + 4), self._height)
        if x0 >= x1 or y0 >= y1:
            return
        away = np.hypot(np.arange(x0, x1) - x, (np.arange(y0, y1) - y)[:, None]) / size
        disc = np.clip((1 - away) * 6, 0, 1) * (0.75 + 0.25 * away)
        part = picture[y0:y1, x0:x1]
        part[:] = np.clip(part + disc[..., None].astype(np.float32) * colour, 0, 255).astype(np.uint8)

    def foreground(self, picture: NDArray[np.uint8]) -> None:
        """Draw the desk over the picture's bottom, in place."""
        picture[self._height - len(self._desk) :] = self._desk

    @staticmethod
    def light(t: float) -> Points:
        """Direction times strength of the soft light that wanders through the room (see `Bust.draw`)."""
        return np.array([0.16 * np.sin(0.5 * t), -0.06 + 0.05 * np.sin(0.37 * t + 2), 0.0])

    def finish(self, picture: NDArray[np.uint8], t: float, index: int) -> NDArray[np.uint8]:
        """Overall brightness and warmth at `t`, and frame `index`'s grain."""
        gain = 0.97 + 0.06 * np.sin(0.42 * t)
        warmth = 0.02 * np.sin(0.31 * t + 1)
        levels = np.arange(256)[:, None] * gain * np.array([1 - warmth, 1, 1 + warmth])
        graded = cv2.LUT(picture, np.clip(np.rint(levels), 0, 255).astype(np.uint8)[:, None])
        rng = np.random.default_rng([self._seed, 202, index])
        x, y = (int(value) for value in rng.integers(0, 64, 2))
        grain = self._grain[y : y + self._height, x : x + self._width]
        return np.asarray(cv2.add(graded, grain, dtype=cv2.CV_8U), np.uint8)


def _wall(rng: np.random.Generator, width: int, height: int) -> NDArray[np.uint8]:
    """An out-of-focus room: panels, a window, lamps and uneven plaster."""
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    picture = np.empty((height, width, 3), np.float32)
    picture[:] = floats([92, 96, 98])
    picture += (30 * np.cos(x / width * 5.2 + 0.6) - 34 * (y / height))[..., None] * floats([1.1, 1.0, 0.9])
    for _ in range(14):
        left, wide = rng.uniform(0, width), rng.uniform(0.03, 0.12) * width
        top, tall = rng.uniform(0, 0.5) * height, rng.uniform(0.25, 0.9) * height
        colour = rng.uniform((-34, -30, -26), (34, 30, 34)).astype(np.float32)
        picture[int(top) : int(top + tall), int(left) : int(left + wide)] += colour
    picture = floats(cv2.GaussianBlur(picture, (0, 0), 0.012 * height))
    for _ in range(22):
        centre = (int(rng.uniform(0, width)), int(rng.uniform(0, 0.75) * height))
        disc = np.zeros((height, width), np.float32)
        cv2.circle(disc, centre, int(rng.uniform(0.015, 0.05) * height), 1.0, -1, cv2.LINE_AA)
        glow = cv2.GaussianBlur(disc, (0, 0), 0.004 * height)
        picture += glow[..., None] * rng.uniform((10, 20, 30), (50, 70, 90)).astype(np.float32)
    plaster = np.zeros((height, width), np.float32)
    for cells, strength in ((6, 9.0), (18, 5.0), (60, 2.0)):
        noise = rng.standard_normal((cells, cells * width // height)).astype(np.float32)
        plaster += strength * cv2.resize(noise, (width, height), interpolation=cv2.INTER_CUBIC)
    return np.asarray(np.clip(picture + plaster[..., None], 0, 255), np.uint8)


def _desk(rng: np.random.Generator, width: int, height: int) -> NDArray[np.uint8]:
    """Dark wood with a lit front edge."""
    fibres = rng.standard_normal((max(height // 2, 2), max(width // 24, 2))).astype(np.float32)
    grain = cv2.resize(fibres, (width, height), interpolation=cv2.INTER_CUBIC)
    rows = np.linspace(0, 1, height, dtype=np.float32)[:, None]
    edge = np.exp(-(((rows - 0.07) / 0.05) ** 2))
    wood = floats([30, 44, 66]) * (1 - 0.45 * rows + 0.9 * edge + 0.05 * grain)[..., None]
    return np.asarray(np.clip(wood, 0, 255), np.uint8)


def _grain(rng: np.random.Generator, width: int, height: int) -> NDArray[np.int16]:
    """Grey noise of about 1.6 code values, slightly soft as a sensor's is after its noise filter."""
    noise = cv2.GaussianBlur(rng.standard_normal((height, width)).astype(np.float32), (0, 0), 0.6)
    noise = np.rint(noise / noise.std() * 1.6).astype(np.int16)
    return np.repeat(noise[..., None], 3, axis=2)
