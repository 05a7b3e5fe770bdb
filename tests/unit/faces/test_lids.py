"""Shut eyes: covered by the person's own skin as far as they are shut, with the plate's lash line on them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from farm.faces.lids import lidded, shut, with_lashes, with_lids
from farm.faces.mesh import LEFT_EYE, RIGHT_EYE
from farm.faces.meshwarp import SwapSettings, swap
from farm.faces.texture import atlas
from tests.unit.faces.people import frame, head, identity
from tests.unit.faces.test_meshwarp import target

SIDE = 512
SKIN = np.float32(0.7)
PUPIL = np.float32(0.05)
LOWER, UPPER = RIGHT_EYE[9:], RIGHT_EYE[1:8][::-1]


def staring() -> NDArray[np.float32]:
    """An unrolled face of one colour with black eyes."""
    eyes = np.where(atlas(SIDE).eyes[..., None] > 0.5, PUPIL, SKIN)
    return np.repeat(eyes, 3, axis=2).astype(np.float32)


def blinking(eyes: tuple[tuple[int, ...], ...] = (RIGHT_EYE, LEFT_EYE)) -> NDArray[np.float64]:
    points = head()
    for eye in eyes:
        points[list(eye[1:8]), 1] = points[list(eye[9:][::-1]), 1] - 0.2
    return points


def test_an_open_eye_is_not_shut_and_each_eye_is_told_by_itself() -> None:
    assert shut(head())[0] < 0.05
    assert shut(blinking()) == (1.0, 1.0)
    assert shut(blinking((LEFT_EYE,)))[0] < 0.05
    assert shut(blinking((LEFT_EYE,)))[1] == 1.0


def test_lids_are_made_of_the_skin_around_the_eyes() -> None:
    lids = lidded(staring(), atlas().inside.astype(np.float32))
    assert lids[atlas(SIDE).eyes > 0.5].min() > 0.65


def test_only_the_eye_that_is_shut_is_covered() -> None:
    detail = staring()
    lids = lidded(detail, atlas().inside.astype(np.float32))
    assert with_lids(detail, lids, (0.0, 0.0)) is detail
    covered = with_lids(detail, lids, (1.0, 0.0))
    both = atlas(SIDE).eyes > 0.99
    right, left = both & (np.arange(SIDE) < SIDE / 2), both & (np.arange(SIDE) > SIDE / 2)
    assert np.quantile(covered[right], 0.1) > 0.6
    np.testing.assert_array_equal(covered[left], detail[left])
    np.testing.assert_array_equal(covered[300:], detail[300:])


def test_lids_lie_over_the_eyes_of_a_coarser_texture_too() -> None:
    """A bank of small faces is coarser than the picture of which the lids are made."""
    lids = np.where(atlas(SIDE).eyes[..., None] > 0.5, np.float32(0.4), np.full((SIDE, SIDE, 3), SKIN))
    small = np.ascontiguousarray(staring()[::2, ::2])
    covered = with_lids(small, lids, (1.0, 1.0))
    assert np.quantile(np.abs(covered[atlas(SIDE // 2).eyes > 0.99] - 0.4), 0.8) < 0.05


def test_the_plates_lash_line_lies_on_the_lid_and_its_paint_does_not() -> None:
    points = blinking()
    plate = np.full((240, 320, 3), (0.5, 0.3, 0.5), np.float32)
    line = np.round(points[list(LOWER), :2]).astype(int)
    plate[line[:, 1], line[:, 0]] = 0.02
    painted = np.full((240, 320, 3), SKIN, np.float32)
    made = with_lashes(painted, plate, points, (1.0, 1.0), 160.0)
    assert made[line[:, 1], line[:, 0]].mean() < 0.7 * SKIN
    assert np.abs(made - painted).max(axis=2)[:, 165:].max() < 0.02  # the left eye's plate has no dark line
    np.testing.assert_allclose(np.ptp(made, axis=2), 0, atol=1e-6)
    assert with_lashes(painted, plate, points, (0.0, 0.0), 160.0) is painted


@pytest.mark.parametrize("with_them", [False, True])
def test_a_shut_eye_does_not_stare_through_its_lid(with_them: bool) -> None:
    detail = staring()
    skin = atlas().inside.astype(np.float32)
    person = replace(identity((SKIN, SKIN, SKIN)), detail=detail, lids=lidded(detail, skin) if with_them else None)
    shot, points = frame(np.full((240, 320), 120, np.uint8)), blinking()
    swap(shot, target(shot, points), person, SwapSettings(iris=0, sharpness=0))
    rim = np.round(points[[*LOWER, *UPPER], :2]).astype(int)
    darkest = int(shot.planes[0][rim[:, 1], rim[:, 0]].min())
    assert (darkest > 95) is with_them
