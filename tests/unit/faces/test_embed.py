"""Embeddings and their robust mean."""

import numpy as np
from numpy.typing import NDArray

from farm.faces.embed import Embedder, robust_mean, unit
from farm.faces.geometry import ARCFACE_112
from tests.unit.faces.people import direction


def test_the_odd_one_out_is_left_out() -> None:
    same = [direction(0, towards=number, share=0.4) for number in (3, 4, 5)]
    mean, kept = robust_mean(np.array([*same, direction(9)]))
    assert kept.tolist() == [True, True, True, False]
    assert mean @ direction(0) > 0.9


def test_of_two_that_disagree_the_first_is_kept() -> None:
    mean, kept = robust_mean(np.array([direction(1), direction(2)]))
    assert kept.tolist() == [True, False]
    np.testing.assert_allclose(mean, direction(1))


def test_one_picture_is_its_own_mean() -> None:
    mean, kept = robust_mean(np.array([direction(7)]))
    assert kept.tolist() == [True]
    np.testing.assert_allclose(mean, direction(7))


def test_unit_has_length_one_and_zero_stays_zero() -> None:
    np.testing.assert_allclose(unit(np.array([3.0, 4.0])), [0.6, 0.8], rtol=1e-6)
    assert not unit(np.zeros(3)).any()


def test_the_network_gets_the_aligned_crop_as_rgb() -> None:
    seen: list[NDArray[np.float32]] = []

    class Network:
        def run(self, **inputs: NDArray[np.float32]) -> dict[str, NDArray[np.float32]]:
            seen.append(inputs["data"])
            return {"fc1": np.full((1, 128), 2, np.float32)}

    picture = np.zeros((300, 300, 3), np.uint8)
    picture[..., 0] = 200  # blue
    embedding = Embedder(Network())(picture, ARCFACE_112 * 2 + 20)
    assert seen[0].shape == (1, 3, 112, 112)
    assert seen[0][0, :, 60, 60].tolist() == [0, 0, 200]
    np.testing.assert_allclose(np.linalg.norm(embedding), 1, rtol=1e-6)
