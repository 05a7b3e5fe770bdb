"""The measures tell what they claim to tell, on pictures made for it."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from bench.face_measures import Flicker, Pairs, Reading, jitter, kept, sharpness
from bench.hand_keys import HANDS, hand_mask

WHOLE = np.ones((96, 96), np.bool_)


@pytest.fixture
def picture() -> np.ndarray:
    rng = np.random.default_rng(3)
    noise = cv2.GaussianBlur(rng.uniform(0, 255, (96, 96, 3)).astype(np.float32), (0, 0), 2)
    return cv2.normalize(noise, None, 20, 230, cv2.NORM_MINMAX).astype(np.uint8)


def _reading(value: float) -> Reading:
    return Reading(np.zeros((478, 3)), value, value, value, value, value, value, None)


def test_a_blurred_face_has_less_fine_detail(picture: np.ndarray) -> None:
    assert sharpness(cv2.GaussianBlur(picture, (0, 0), 2), WHOLE) < 0.6 * sharpness(picture, WHOLE)


def test_a_steady_result_flickers_like_the_plate_and_a_noisy_one_more(picture: np.ndarray) -> None:
    rng = np.random.default_rng(4)
    same, noisy = Flicker(), Flicker()
    for shift in range(5):
        moved = np.roll(picture, shift, axis=1)
        shaken = np.clip(moved + rng.normal(0, 12, moved.shape[:2])[..., None], 0, 255).astype(np.uint8)
        same.add(moved, moved, WHOLE)
        noisy.add(moved, shaken, WHOLE)
    assert same.ratio() == pytest.approx(1.0)
    assert noisy.ratio() > 1.5


def test_a_cut_is_not_flicker(picture: np.ndarray) -> None:
    measure = Flicker()
    for shift in (0, 1):
        measure.add(np.roll(picture, shift, axis=1), np.roll(picture, shift, axis=1), WHOLE)
    measure.cut()
    measure.add(255 - picture, picture, WHOLE)
    assert measure.ratio() == pytest.approx(1.0)


def test_correlation_and_pose_error_compare_frame_by_frame() -> None:
    pairs = Pairs()
    for value in (0.0, 1.0, 4.0):
        pairs.add(_reading(value), _reading(value + 0.5))
    assert pairs.correlation("yaw") == pytest.approx(1.0)
    assert pairs.pose_error() == pytest.approx(0.5)


def test_a_frozen_result_correlates_with_nothing() -> None:
    pairs = Pairs()
    for value in (0.0, 1.0, 4.0):
        pairs.add(_reading(value), _reading(2.0))
    assert pairs.correlation("mouth") == 0.0


def test_jitter_is_the_spread_around_the_mean_place() -> None:
    still = np.zeros((478, 2))
    assert jitter([still, still]) == 0.0
    assert jitter([still, still + np.array([2.0, 0.0])]) == pytest.approx(1.0)


def test_kept_counts_pixels_near_the_plates(picture: np.ndarray) -> None:
    result = picture.copy()
    result[:48] = np.where(picture[:48] > 128, picture[:48] - 40, picture[:48] + 40)
    assert kept(picture, result, WHOLE) == pytest.approx(0.5)
    assert kept(picture, picture + 2, WHOLE) == 1.0


def test_there_are_ten_hand_keys_inside_the_picture() -> None:
    assert len(HANDS) == 10
    for frame, outline in HANDS.items():
        points = np.array(outline)
        assert points.min() >= 0
        assert points[:, 0].max() < 640
        assert points[:, 1].max() < 360
        assert 5_000 < hand_mask(frame, (360, 640)).sum() < 30_000
