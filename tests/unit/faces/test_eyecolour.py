"""Eyes in another's colours: how far irises and whites go, and where whites are left as they are."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from farm.faces.eyecolour import EyeColour, iris_ratio, whites_ratio
from farm.faces.eyes import eyeballs, irises
from farm.faces.mesh import LEFT_EYE, RIGHT_EYE
from farm.faces.target import Target
from farm.faces.texture import atlas
from tests.unit.faces.people import head, identity

SHAPE = (240, 320)
IRIS = np.full(3, 0.2, np.float32)


def eyed(skin: float, whites: float) -> NDArray[np.float32]:
    """A grey unrolled face, with eyes."""
    place = atlas()
    grey = skin * place.inside + (whites - skin) * (place.eyes > 0.5)
    return np.repeat(grey[..., None], 3, axis=2).astype(np.float32)


PERSON = replace(identity(), texture=eyed(0.6, 0.54), iris=np.full(3, 0.3, np.float32))


def wearing(points: NDArray[np.float64], whites: float = 0.54) -> Target:
    skin = atlas().inside.astype(np.float32)
    return Target(points=points, texture=eyed(0.6, whites), skin=skin, iris=IRIS)


def narrowed(share: float) -> NDArray[np.float64]:
    """A head whose lids are open to `share` of how wide they were."""
    points = head()
    for eye in (RIGHT_EYE, LEFT_EYE):
        lids = list(eye[1:8] + eye[9:])
        middle = points[list(eye), 1].mean()
        points[lids, 1] = middle + share * (points[lids, 1] - middle)
    return points


def test_a_light_iris_is_put_in_as_light_as_the_whites_beside_it_allow() -> None:
    plain, shaded = wearing(head()), wearing(head(), 0.27)
    assert iris_ratio(plain, PERSON) == pytest.approx(np.full(3, 0.75 * 0.33 / 0.23), rel=1e-3)
    assert iris_ratio(shaded, PERSON) == pytest.approx(np.full(3, 0.75 * 0.18 / 0.23), rel=1e-3)


def test_whites_come_to_lie_to_the_skin_as_the_identitys_do() -> None:
    assert whites_ratio(wearing(head()), PERSON) == pytest.approx(np.ones(3), rel=1e-3)
    assert whites_ratio(wearing(head(), 0.36), PERSON) == pytest.approx(np.full(3, 1.5), rel=1e-3)
    assert whites_ratio(wearing(head(), 0.06), PERSON) == pytest.approx(np.full(3, 2.5))


def test_open_eyes_whites_are_coloured_beside_the_irises_and_nothing_else_is() -> None:
    points = narrowed(1.3)
    plate = np.full((*SHAPE, 3), 0.3, np.float32)
    EyeColour.of(wearing(points, 0.36), PERSON, points, SHAPE, 1.0).paint(plate)
    iris = np.zeros(SHAPE, np.float32)
    for rows, columns, where in irises(points, SHAPE):
        iris[rows, columns] = where
    inside = eyeballs(points, SHAPE)
    assert plate[(inside > 0.99) & (iris < 0.01)].max() == pytest.approx(0.45, rel=0.02)
    assert plate[iris > 0.95].max() < 0.3
    column, row = np.rint(points[4, :2]).astype(int)
    assert plate[row, column] == pytest.approx(np.full(3, 0.3))


def test_whites_of_narrow_eyes_stay_in_the_lids_shade() -> None:
    def white(share: float) -> float:
        points = narrowed(share)
        places = EyeColour.of(wearing(points, 0.36), PERSON, points, SHAPE, 1.0).white_places
        return max((float(mask.max()) for _, _, mask in places), default=0.0)

    assert white(1.3) > 3 * white(0.9) > 0
    assert white(0.5) == 0


def test_no_share_or_no_known_iris_leaves_the_eyes_as_they_are() -> None:
    points = head()
    unknown = replace(wearing(points, 0.36), iris=None)
    for who, share in ((wearing(points, 0.36), 0.0), (unknown, 1.0)):
        plate = np.full((*SHAPE, 3), 0.3, np.float32)
        EyeColour.of(who, PERSON, points, SHAPE, share).paint(plate)
        assert (plate == np.float32(0.3)).all()
