"""Burnt-in times survive what an encoder does to them, and are never misread."""

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from farm.media import stamp
from tests.unit.faces import people


def stamped(milliseconds: int) -> NDArray[np.uint8]:
    frame = people.frame(np.random.default_rng(1).integers(0, 256, (64, 400), np.uint8))
    stamp.burn(frame, milliseconds)
    return np.asarray(frame.planes[0], np.uint8)


@pytest.mark.parametrize("milliseconds", [0, 1, 1_764_543_210_987, (1 << 40) - 1])
def test_a_time_is_read_back(milliseconds: int) -> None:
    assert stamp.read(stamped(milliseconds)) == milliseconds % (1 << 40)


def test_it_survives_a_strong_compression() -> None:
    _, data = cv2.imencode(".jpg", stamped(1_764_543_210_987), [cv2.IMWRITE_JPEG_QUALITY, 20])
    luma = cv2.imdecode(data, cv2.IMREAD_GRAYSCALE)
    assert luma is not None
    assert stamp.read(np.asarray(luma, np.uint8)) == 1_764_543_210_987 % (1 << 40)


def test_a_picture_without_one_or_with_a_damaged_one_says_so() -> None:
    luma = stamped(1_764_543_210_987)
    luma[:, :8] = 255 - luma[:, :8]
    assert stamp.read(luma) is None
    assert stamp.read(np.zeros((4, 4), np.uint8)) is None


def test_only_the_blocks_are_written() -> None:
    frame = people.frame(np.full((64, 400), 77, np.uint8))
    stamp.burn(frame, 5)
    assert (frame.planes[0][stamp.BLOCK :] == 77).all()
    assert (frame.planes[0][:, stamp.WIDTH :] == 77).all()
