"""A frame as people see it, small, for detectors: upright, square pixels, 8-bit BGR."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from farm.media.facts import PlateFacts
from farm.media.frame import Frame
from farm.media.matrices import coding_of
from farm.media.tonemap import tone_map_of

Samples = NDArray[Any]


def upright_preview(frame: Frame, facts: PlateFacts, max_side: int) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    """(picture, affine): uint8 BGR (h, w, 3), no side over `max_side`, and the 2×3 map from its pixels to the frame's.

    Turned and mirrored as the display matrix says, stretched to square pixels, never enlarged beyond that. The affine
    maps pixel indexes (centre of the first pixel is 0, 0) to pixel indexes of the coded picture. PQ, HLG and wide
    gamuts are tone-mapped so that faces look as models know them; other plates are shown as they are.
    """
    width, height = _square(frame, facts)
    scale = min(1.0, max_side / max(width, height))
    small_width, small_height = max(1, round(width * scale)), max(1, round(height * scale))
    picture = _small_bgr(frame, small_width, small_height)
    turn = _turn(facts.video.display_matrix)
    upright = _turned(picture, turn)
    return upright, _affine(frame, turn, upright.shape[1], upright.shape[0], small_width, small_height)


def shown_size(frame: Frame, facts: PlateFacts) -> tuple[float, float]:
    """Width and height of the plate as it is shown: upright, square pixels, at its full size."""
    width, height = _square(frame, facts)
    sideways = abs(_turn(facts.video.display_matrix)[0, 1]) > 0
    return (height, width) if sideways else (width, height)


def _square(frame: Frame, facts: PlateFacts) -> tuple[float, float]:
    """The coded picture's size, stretched to square pixels."""
    aspect = float(facts.video.sample_aspect_ratio or 1)
    return (frame.width * aspect, frame.height) if aspect >= 1 else (frame.width, frame.height / aspect)


def _small_bgr(frame: Frame, width: int, height: int) -> NDArray[np.uint8]:
    coding = coding_of(frame)
    planes = frame.planes[:1] if frame.format.family == "gray" else frame.planes[:3]
    small = [_resized(plane, width, height) for plane in planes]
    if frame.format.family == "gray":
        neutral = np.full((height, width), float(1 << (frame.format.depth - 1)), np.float32)
        small += [neutral.astype(small[0].dtype), neutral.astype(small[0].dtype)]
    elif frame.format.family == "rgb":
        small = [small[2], small[0], small[1]]
    tones = tone_map_of(frame.colour)
    if frame.format.depth == 8 and tones.plain:
        # The same sums on bytes, rounded and clipped by OpenCV: a large preview takes a fifth of the time.
        samples = cv2.merge([np.asarray(plane, np.uint8) for plane in small])
        return np.ascontiguousarray(cv2.transform(samples, coding.to_rgb[::-1] * np.float32(255)))
    samples = cv2.merge([np.asarray(plane, np.float32) for plane in small])
    rgb = np.asarray(cv2.transform(samples, coding.to_rgb), np.float32)
    return np.ascontiguousarray(tones.glimpse(rgb)[:, :, ::-1])


def _resized(plane: Samples, width: int, height: int) -> Samples:
    # Down to a half four neighbours see every pixel, and take a fifth of the time that areas do.
    far = 2 * width < plane.shape[1] or 2 * height < plane.shape[0]
    how = cv2.INTER_AREA if far else cv2.INTER_LINEAR
    if (plane.shape[1], plane.shape[0]) == (width, height):
        return plane
    return np.asarray(cv2.resize(plane, (width, height), interpolation=how), plane.dtype)


def _turn(matrix: tuple[int, ...] | None) -> NDArray[np.float64]:
    """The 2×2 part of a display matrix as a turn by right angles, with or without a mirror (x right, y down)."""
    if matrix is None:
        return np.eye(2)
    linear = np.array([[matrix[0], matrix[3]], [matrix[1], matrix[4]]], np.float64) / 65536.0
    turn = np.rint(linear)
    return turn if abs(np.linalg.det(turn)) == 1 and np.abs(turn).sum() == 2 else np.eye(2)


def _turned(picture: NDArray[np.uint8], turn: NDArray[np.float64]) -> NDArray[np.uint8]:
    if turn[0, 0] == 0:
        picture = picture.transpose(1, 0, 2)
    if turn[0].sum() < 0:
        picture = picture[:, ::-1]
    if turn[1].sum() < 0:
        picture = picture[::-1]
    return np.ascontiguousarray(picture)


def _affine(
    frame: Frame, turn: NDArray[np.float64], width: int, height: int, small_width: int, small_height: int
) -> NDArray[np.float64]:
    """Preview pixel index → coded pixel index; both picture areas are turned about their middles."""
    back = np.linalg.inv(turn)
    scale = np.diag([frame.width / small_width, frame.height / small_height])
    middle_up = np.array([width, height]) / 2.0
    middle_coded = np.array([small_width, small_height]) / 2.0
    linear = scale @ back
    # Indexes name pixel centres, half a pixel inside the area.
    offset = scale @ (middle_coded + back @ (np.array([0.5, 0.5]) - middle_up)) - 0.5
    return np.hstack([linear, offset[:, None]])
