"""Eyes, hands, working ahead, and the registry of processors."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from farm.errors import RecipeError
from farm.faces.ahead import ahead
from farm.faces.eyes import iris_colour, irises, openness
from farm.faces.hands import Hand, outline
from farm.faces.network import Network
from farm.faces.processors import processors_of
from farm.recipe import ProcessorSpec, Recipe
from tests.unit.faces.people import head


def test_eyes_open_and_shut() -> None:
    points = head(size=300, centre=(200, 200))
    assert openness(points) > 0.2
    shut = points.copy()
    for upper, lower in ((159, 145), (386, 374)):
        shut[upper] = shut[lower] = (points[upper] + points[lower]) / 2
    assert openness(shut) < 0.01


def test_the_irises_colour_is_read_without_glints() -> None:
    points = head(size=300, centre=(200, 200))
    rgb = np.full((400, 400, 3), 0.8, np.float32)
    for rows, columns, mask in irises(points, (400, 400)):
        rgb[rows, columns][mask > 0.2] = [0.2, 0.3, 0.5]
    for centre in (468, 473):
        x, y = points[centre, :2].astype(int)
        rgb[y - 4 : y - 2, x + 1 : x + 3] = 1.0
    colour = iris_colour(rgb, points)
    assert colour is not None
    np.testing.assert_allclose(colour, [0.2, 0.3, 0.5], atol=1e-6)
    assert iris_colour(rgb, head(size=20, centre=(200, 200))) is None


def test_an_iris_beside_the_picture_is_left_out() -> None:
    assert len(irises(head(size=300, centre=(-10, 200)), (400, 400))) == 1


def spread_hand() -> Hand:
    fingers = [np.linspace([40 + 14 * n, 60], [40 + 14 * n, 20], 4) for n in range(5)]
    return Hand(np.vstack([[[68.0, 110]], *fingers]), 1.0, np.eye(2, 3))


def test_a_hands_outline_holds_its_fingers_and_not_what_lies_beside() -> None:
    area = outline(spread_hand(), np.full((130, 130, 3), 0.6, np.float32), np.zeros(2))
    assert area[30, 54] > 0.99
    assert area[80, 68] > 0.99
    assert area[30, 5] == 0
    assert area[125, 125] == 0


def test_what_is_dark_beside_a_hand_is_not_the_hand_but_the_gap_between_two_fingers_is() -> None:
    rgb = np.full((130, 130, 3), 0.6, np.float32)
    rgb[:70, 101:] = 0.1
    rgb[25:40, 58:64] = 0.1
    area = outline(spread_hand(), rgb, np.zeros(2))
    assert area[32, 103] == 0
    assert area[32, 96] > 0.99
    assert area[32, 61] > 0.99


def test_a_brow_that_ends_beside_a_finger_is_not_closed_into_the_hand() -> None:
    hand = spread_hand()
    large = replace(hand, points=hand.points * 3)
    rgb = np.full((390, 390, 3), 0.6, np.float32)
    rgb[90:105, 300:] = 0.1
    area = outline(large, rgb, np.zeros(2))
    assert area[97, 312] < 0.01
    assert area[80, 312] > 0.9


def test_work_is_done_ahead_in_order_and_no_farther_than_allowed() -> None:
    taken: list[int] = []

    def items() -> object:
        for number in range(20):
            taken.append(number)
            yield number

    with ThreadPoolExecutor(2) as pool:
        results = ahead(pool, lambda n: (n, threading.current_thread().name), items(), 3)
        for number, (result, _) in enumerate(results):
            assert result == number
            assert len(taken) <= number + 3


def test_an_error_in_the_work_is_the_callers() -> None:
    def fail(number: int) -> int:
        if number == 3:
            raise ValueError("three")
        return number

    with ThreadPoolExecutor(2) as pool, pytest.raises(ValueError, match="three"):
        list(ahead(pool, fail, range(9), 4))


class NoNetworks:
    def load(self, name: str) -> Network:
        raise AssertionError(f"{name} was loaded")


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (ProcessorSpec(kind="sing", model="x"), "no processor of kind 'sing'"),
        (ProcessorSpec(kind="swap", model="nobody"), "'nobody'"),
        (ProcessorSpec(kind="swap", model="mesh-warp", settings={"strength": 7}), "'strength'"),
        (ProcessorSpec(kind="swap", model="mesh-warp", settings={"lustre": 1}), "'lustre'"),
    ],
)
def test_a_recipe_that_cannot_be_is_refused_before_any_model_is_loaded(spec: ProcessorSpec, words: str) -> None:
    with pytest.raises(RecipeError, match=words):
        processors_of(Recipe(name="odd", processors=(spec,)), NoNetworks())
