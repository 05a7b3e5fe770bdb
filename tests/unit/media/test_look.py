"""A look tells pictures apart and does not mind coding noise."""

from __future__ import annotations

import numpy as np

from farm.media.look import alike, look_of


def ramp(height: int = 90, width: int = 160) -> np.ndarray:
    return np.add.outer(np.arange(height), np.arange(width)).astype(np.uint8)


def test_noise_of_a_few_levels_is_the_same_picture() -> None:
    noise = np.random.default_rng(1).integers(-6, 7, (90, 160))
    noisy = (ramp().astype(int) + noise).clip(0, 255).astype(np.uint8)
    assert alike(look_of(ramp(), "yuv420p"), look_of(noisy, "yuv420p"))


def test_black_and_a_picture_that_moved_are_other_pictures() -> None:
    assert not alike(look_of(ramp(), "yuv420p"), look_of(np.zeros_like(ramp()), "yuv420p"))
    assert not alike(look_of(ramp(), "yuv420p"), look_of(np.roll(ramp(), 40, axis=1), "yuv420p"))


def test_depth_does_not_matter() -> None:
    deep = ramp().astype(np.uint16) * 4
    assert alike(look_of(ramp(), "yuv420p"), look_of(deep, "yuv420p10le"))


def test_a_tiny_picture_has_a_small_look() -> None:
    assert look_of(np.array([[77]], np.uint8), "gray") == "4d"
    assert len(look_of(ramp(3, 17), "yuv444p")) == 2 * 3 * 8
