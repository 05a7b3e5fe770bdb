"""Similarities, crops and head pose."""

import numpy as np
import pytest

from farm.faces.geometry import (
    apply,
    compose,
    crop_around,
    five_points,
    head_pose,
    invert,
    placement,
    scale_of,
    similarity,
)
from tests.unit.faces.people import head


def test_similarity_recovers_turn_scale_and_shift() -> None:
    rng = np.random.default_rng(1)
    source = rng.normal(size=(5, 2))
    angle = 0.7
    turn = 3.0 * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    found = similarity(source, source @ turn.T + [5, -2])
    np.testing.assert_allclose(found, np.hstack([turn, [[5], [-2]]]), atol=1e-9)
    assert scale_of(found) == pytest.approx(3)


def test_similarity_never_mirrors() -> None:
    source = np.array([[0.0, 0], [1, 0], [0, 1], [2, 2]])
    assert np.linalg.det(similarity(source, source * [-1, 1])[:, :2]) > 0


def test_compose_and_invert_undo_each_other() -> None:
    first, second = crop_around(np.array([30.0, 40]), 20, 0.3, 64), crop_around(np.array([1.0, 2]), 7, -1.0, 10)
    points = np.array([[3.0, 4], [50, -6]])
    np.testing.assert_allclose(apply(compose(second, first), points), apply(second, apply(first, points)))
    np.testing.assert_allclose(apply(compose(invert(first), first), points), points)


def test_crop_puts_the_centre_in_the_middle_and_levels_the_angle() -> None:
    affine = crop_around(np.array([30.0, 40]), 20, np.pi / 6, 64)
    middle, along = apply(affine, np.array([[30.0, 40], [30 + np.cos(np.pi / 6), 40 + np.sin(np.pi / 6)]]))
    np.testing.assert_allclose(middle, [31.5, 31.5])
    np.testing.assert_allclose(along - middle, [3.2, 0], atol=1e-9)


@pytest.mark.parametrize("angles", [(0, 0, 0), (30, 0, 0), (-25, 10, 5), (0, -20, 0), (10, 5, 40), (0, 0, -90)])
def test_pose_of_a_turned_head_is_its_angles(angles: tuple[float, float, float]) -> None:
    pose = head_pose(head(yaw=angles[0], pitch=angles[1], roll=angles[2]))
    np.testing.assert_allclose((pose.yaw, pose.pitch, pose.roll), angles, atol=0.5)


def test_yaw_is_positive_when_the_nose_points_to_the_pictures_right_and_pitch_when_it_points_down() -> None:
    straight, right, down = head(), head(yaw=20), head(pitch=20)
    assert right[4, 0] - right[:468, 0].mean() > straight[4, 0] - straight[:468, 0].mean()
    assert down[4, 1] - down[:468, 1].mean() > straight[4, 1] - straight[:468, 1].mean()


def test_placement_undoes_pose_size_and_place() -> None:
    points = head(yaw=25, pitch=-10, roll=15, size=300, centre=(500, 400))
    form = placement(points).undo(points[:468])
    plain = placement(head()).undo(head()[:468])
    np.testing.assert_allclose(form, plain, atol=1e-6)
    shift = placement(points).turn(np.array([[1.0, 0, 0]]))
    assert np.linalg.norm(shift) == pytest.approx(placement(points).scale)


def test_five_points_are_named_from_the_person() -> None:
    five = five_points(head())
    assert five[0, 0] < five[2, 0] < five[1, 0]
    assert five[0, 1] < five[2, 1] < five[3, 1]
