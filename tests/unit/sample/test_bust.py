"""The heads of the sample plate: geometry, and what the truth says of it."""

from __future__ import annotations

import numpy as np
import pytest

from farm.errors import NotFoundError
from farm.sample.bust import Bust, Pose, rotation
from farm.sample.expression import Expression
from farm.sample.portrait import FACE_OVAL, IDENTITIES, load_portrait, portrait_picture

DARK = np.zeros(3)


@pytest.fixture(scope="module")
def bust() -> Bust:
    return Bust(load_portrait("astronaut"), 1.0)


def _drawn(bust: Bust, pose: Pose, expression: Expression | None = None) -> np.ndarray:
    picture = np.zeros((300, 300, 3), np.uint8)
    bust.draw(picture, pose, expression or Expression(), DARK)
    return picture


def test_rotation_signs_are_the_documented_ones() -> None:
    nose = np.array([0.0, 0.0, -1.0])
    assert (rotation(20, 0, 0) @ nose)[0] > 0.3
    assert (rotation(0, 20, 0) @ nose)[1] > 0.3
    assert (rotation(0, 0, 20) @ [0.0, -1.0, 0.0])[0] > 0.3
    turn = rotation(17, -9, 12)
    assert turn @ turn.T == pytest.approx(np.eye(3), abs=1e-12)


@pytest.mark.parametrize("identity", IDENTITIES)
@pytest.mark.parametrize(("yaw", "pitch", "roll"), [(0, 0, 0), (28, 10, -9), (-28, -10, 9), (25, -11, 10)])
def test_every_point_of_the_picture_has_its_point_of_the_portrait(
    identity: str, yaw: float, pitch: float, roll: float
) -> None:
    portrait = load_portrait(identity)
    bust = Bust(portrait, 1.0)
    pose = Pose(150, 150, 150 / 2 / portrait.face_width, yaw, pitch, roll)
    marks = portrait.landmarks[[*FACE_OVAL[::4], 1, 33, 61, 152, 263, 291]]
    screen = bust.project(marks, pose)
    forward = bust._forward(pose)
    maps = bust._inverse(forward, pose, (0, 0, 300, 300), DARK)
    columns, rows = np.rint(screen).astype(int).T
    found = maps[rows, columns, :2] / bust._scale
    again = bust.project(found.astype(np.float64), pose)
    assert np.abs(again - np.stack([columns, rows], 1)).max() < 1.0


def test_a_turned_head_moves_its_nose_that_way(bust: Bust) -> None:
    nose_and_eyes = bust.face.landmarks(Expression())[[4, 33, 263]]

    def offset(yaw: float) -> float:
        nose, right, left = bust.project(nose_and_eyes, Pose(150, 150, 1.0, yaw=yaw))
        return float(nose[0] - (right[0] + left[0]) / 2)

    assert offset(25) - offset(0) > 8
    assert offset(0) - offset(-25) > 8


def test_the_body_stays_where_the_head_turns(bust: Bust) -> None:
    chest = np.array([[200.0, 330.0]])
    still, turned = (bust.project(chest, Pose(150, 100, 0.8, yaw=yaw)) for yaw in (0, 25))
    assert turned == pytest.approx(still, abs=0.05)


def test_a_blink_closes_the_lids_and_leaves_the_rest(bust: Bust) -> None:
    opened, closed = (bust.face.landmarks(Expression(lid_left=lid, lid_right=lid)) for lid in (0.0, 1.0))
    gap_open, gap_closed = (points[145, 1] - points[159, 1] for points in (opened, closed))
    assert gap_closed < 0.2 * gap_open
    assert np.array_equal(opened[[1, 13, 14, 152, 145, 468]], closed[[1, 13, 14, 152, 145, 468]])
    pose = Pose(150, 150, 1.0)
    changed = np.abs(
        _drawn(bust, pose).astype(int) - _drawn(bust, pose, Expression(lid_left=1, lid_right=1)).astype(int)
    ).max(2)
    rows = np.flatnonzero(changed.max(1) > 8)
    eyes = bust.project(opened[[159, 145]], pose)[:, 1]
    assert rows.min() > eyes.min() - 16
    assert rows.max() < eyes.max() + 6


def test_an_open_jaw_shows_the_dark_of_the_mouth(bust: Bust) -> None:
    shut, wide = (bust.face.landmarks(Expression(jaw=jaw)) for jaw in (0.0, 1.0))
    assert wide[14, 1] - wide[13, 1] > shut[14, 1] - shut[13, 1] + 8
    assert wide[152, 1] > shut[152, 1] + 5
    assert np.array_equal(wide[[13, 1, 33, 78]], shut[[13, 1, 33, 78]])
    pose = Pose(150, 150, 1.0)
    column, row = np.rint(bust.project((wide[[14]] + shut[[14]]) / 2, pose)[0]).astype(int)
    assert _drawn(bust, pose)[row, column].max() > 120
    assert _drawn(bust, pose, Expression(jaw=1.0))[row, column].max() < 100


def test_gaze_moves_the_irises_and_nothing_else(bust: Bust) -> None:
    left, right = (bust.face.landmarks(Expression(gaze=gaze)) for gaze in (-1.0, 1.0))
    assert np.all(right[[468, 473], 0] - left[[468, 473], 0] > 2)
    assert np.array_equal(left[:468], right[:468])


def test_a_person_outside_the_picture_is_not_drawn(bust: Bust) -> None:
    picture = np.full((64, 64, 3), 9, np.uint8)
    assert bust.draw(picture, Pose(900, 30, 0.2), Expression(), DARK) is None
    assert np.all(picture == 9)


def test_an_unknown_portrait_is_named() -> None:
    with pytest.raises(NotFoundError, match=r"nobody.*Choose one of: astronaut"):
        portrait_picture("nobody")
