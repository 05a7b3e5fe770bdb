"""The swap on made-up heads: what changes, what must not, and in which light."""

from dataclasses import replace

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from farm.faces.eyes import eyeballs
from farm.faces.geometry import placement
from farm.faces.hands import Hand
from farm.faces.mesh import INNER_LIPS, LEFT_EYE, OVAL, RIGHT_EYE, VERTICES
from farm.faces.meshwarp import SwapSettings, believable, kept_of, reproportioned, sharpening, swap
from farm.faces.target import Target
from farm.faces.texture import SIZE, atlas, filled_outline, unwrap
from farm.media.colour import region_to_rgb
from farm.media.frame import Frame
from tests.unit.faces.people import frame, head, identity

PLAIN = SwapSettings(grain=0, iris=0)


def plate(level: int = 120) -> Frame:
    rng = np.random.default_rng(5)
    return frame(np.clip(level + rng.integers(-30, 31, (240, 320)), 16, 235).astype(np.uint8))


def target(shot: Frame, points: NDArray[np.float64], **more: object) -> Target:
    rgb = region_to_rgb(shot, (0, 0, shot.width, shot.height))
    skin = atlas().inside.astype(np.float32)
    return replace(Target(points=points, texture=unwrap(rgb, points), skin=skin), **more)


def copied(shot: Frame) -> list[NDArray[np.generic]]:
    return [plane.copy() for plane in shot.planes]


def test_outside_the_mask_every_sample_keeps_its_bits() -> None:
    shot = plate()
    before = copied(shot)
    patch = swap(shot, target(shot, head()), identity(), PLAIN)
    assert patch is not None
    whole = np.zeros((240, 320), np.float32)
    x0, y0, x1, y1 = patch.box
    whole[y0:y1, x0:x1] = patch.mask
    untouched = whole == 0
    assert 0.1 < (~untouched).mean() < 0.5
    assert (shot.planes[0] == before[0])[untouched].all()
    assert (shot.planes[0] != before[0])[whole > 0.9].mean() > 0.5
    chroma = untouched.reshape(120, 2, 160, 2).all(axis=(1, 3))
    grown = np.pad(chroma, 1, mode="edge")
    clear = np.lib.stride_tricks.sliding_window_view(grown, (3, 3)).all(axis=(2, 3))
    for plane, old in zip(shot.planes[1:], before[1:], strict=True):
        assert (plane == old)[clear].all()


def test_the_new_skin_stands_in_the_plates_light() -> None:
    for level in (60, 150):
        shot = plate(level)
        points = head()
        swap(shot, target(shot, points), identity((0.8, 0.55, 0.5)), PLAIN)
        middle = shot.planes[0][110:130, 150:170].mean()
        assert abs(middle - level) < 6


def test_featureless_skin_takes_the_noise_away_and_grain_brings_it_back() -> None:
    smooth, grainy = plate(), plate()
    swap(smooth, target(smooth, head()), identity(), PLAIN)
    swap(grainy, target(grainy, head()), identity(), SwapSettings(grain=1, iris=0))
    cheek = (slice(128, 140), slice(125, 137))
    assert smooth.planes[0][cheek].std() < 5
    assert grainy.planes[0][cheek].std() > 1.5 * smooth.planes[0][cheek].std()


def test_the_face_gets_the_fine_detail_that_the_plate_has_where_it_shows() -> None:
    """Half the face is covered by the plate's own: the skin alone would fall short."""
    shot, points = plate(), head()
    before = shot.planes[0].astype(np.float32)
    faint = identity()
    faint = replace(faint, detail=faint.detail * np.random.default_rng(3).uniform(0.85, 1.0, (512, 512, 1)))
    half = target(shot, points)
    swap(shot, replace(half, skin=half.skin * np.float32(0.6)), faint, PLAIN)
    cheek = (slice(125, 150), slice(120, 145))
    fine = [values - cv2.GaussianBlur(values, (0, 0), 1.5) for values in (before, shot.planes[0].astype(np.float32))]
    assert 0.7 < fine[1][cheek].std() / fine[0][cheek].std() < 1.0


@pytest.mark.parametrize(("rms", "share"), [(0.02, 0.78), (0.06, 0.92)])
def test_in_a_grainy_plate_more_of_its_fine_detail_is_aimed_at(rms: float, share: float) -> None:
    """The detail that is there is half the plate's, and each time more adds as much again."""
    has = (rms / 2) ** 2
    more = sharpening(has, has, has, rms**2)
    assert (1 + more) * rms / 2 == pytest.approx(share * rms, rel=0.01)


def test_eyeballs_and_inner_mouth_stay_the_plates() -> None:
    shot, points = plate(), head()
    open_mouth = points.copy()
    lower = [14, 87, 178, 88, 95, 317, 402, 318, 324]
    open_mouth[lower, 1] += 14
    before = copied(shot)
    swap(shot, target(shot, open_mouth), identity(), PLAIN)
    kept = np.maximum(eyeballs(open_mouth, (240, 320)), filled_outline(open_mouth[list(INNER_LIPS)], (240, 320)))
    deep = np.lib.stride_tricks.sliding_window_view(np.pad(kept, 3), (7, 7)).min(axis=(2, 3)) > 0.99
    assert deep.sum() > 20
    difference = np.abs(shot.planes[0].astype(int) - before[0])
    assert difference[deep].mean() < 3
    assert difference[100:140, 150:170].mean() > 10


def test_a_hand_stays_in_front() -> None:
    shot, points = plate(), head()
    finger = np.linspace([120.0, 160], [165, 120], 4)
    others = [finger + np.array([6.0 * n, 6 * n]) for n in range(1, 5)]
    hand = np.vstack([[[95.0, 190]], finger, *others])
    before = copied(shot)
    patch = swap(shot, target(shot, points, hands=(Hand(hand, 1.0, np.eye(2, 3)),)), identity(), PLAIN)
    assert patch is not None
    line = np.round(np.linspace(finger[0], finger[-1], 30)).astype(int)
    assert (shot.planes[0][line[:, 1], line[:, 0]] == before[0][line[:, 1], line[:, 0]]).mean() > 0.9


def test_features_move_towards_the_identitys_proportions() -> None:
    shot = plate()
    points = head()
    who = identity()
    rest = who.shape.copy()
    rest[:, 1] += np.where(np.abs(who.shape[:, 1]) < 3, 0.6, 0)  # the plate's person has a lower nose
    dark = who.detail.copy()
    nose = atlas(512)
    where = unwrap_box(nose.size)
    dark[where] = 0.05
    with_spot = replace(who, detail=dark)

    def spot(chosen: Target, share: float) -> float:
        canvas = frame(np.full((240, 320), 120, np.uint8))
        swap(canvas, chosen, with_spot, SwapSettings(grain=0, iris=0, proportions=share))
        row, _ = np.nonzero(canvas.planes[0] < 70)
        return float(row.mean())

    same = target(shot, points)
    other = replace(same, rest=rest)
    assert spot(other, 0.0) == pytest.approx(spot(same, 1.0))
    assert spot(other, 1.0) < spot(other, 0.0) - 1


def unwrap_box(size: int) -> tuple[slice, slice]:
    """A small square in the texture at the tip of the nose."""
    from farm.faces.mesh import canonical_mesh

    u, v = (canonical_mesh().uv[4] * size).astype(int)
    return slice(v - 14, v + 14), slice(u - 14, u + 14)


def test_strength_fades_with_yaw_and_ends() -> None:
    settings = SwapSettings()
    strengths = [believable(target(plate(), head(yaw=yaw)).pose, settings) for yaw in (0, 40, 60, 75)]
    assert strengths[0] == strengths[1] == 1
    assert 0 < strengths[2] < 1
    assert strengths[3] == 0
    shot = plate()
    before = copied(shot)
    assert swap(shot, target(shot, head(yaw=75)), identity(), settings) is None
    assert all((a == b).all() for a, b in zip(shot.planes, before, strict=True))


def test_what_is_not_finite_is_never_pasted() -> None:
    shot = plate()
    before = copied(shot)
    broken = replace(identity(), detail=np.full((512, 512, 3), np.nan, np.float32))
    assert swap(shot, target(shot, head()), broken, PLAIN) is None
    assert all((a == b).all() for a, b in zip(shot.planes, before, strict=True))


@pytest.mark.parametrize("centre", [(10, 120), (310, 120), (160, 5), (160, 236)])
def test_a_face_half_out_of_the_frame_is_swapped_in_the_part_that_shows(centre: tuple[float, float]) -> None:
    shot = plate()
    patch = swap(shot, target(shot, head(centre=centre)), identity(), PLAIN)
    assert patch is not None
    assert patch.mask.any()


def test_hair_over_the_face_is_left_out() -> None:
    shot = plate()
    skin = atlas().inside.astype(np.float32)
    skin[: SIZE // 2] = 0
    before = copied(shot)
    swap(shot, replace(target(shot, head()), skin=skin), identity(), PLAIN)
    assert (shot.planes[0][40:80] == before[0][40:80]).all()
    assert (shot.planes[0][130:150, 150:170] != before[0][130:150, 150:170]).any()


def test_a_form_that_is_only_larger_or_lies_elsewhere_moves_no_feature() -> None:
    shot, points = plate(), head(yaw=10)
    person = identity()
    wanted = target(shot, points, rest=person.shape)
    larger = replace(person, shape=person.shape * 1.07 + [0.1, 0.4, -0.2])
    assert np.abs(reproportioned(wanted, larger, 1.0) - points).max() < 1e-6
    longer = replace(person, shape=person.shape + np.where(np.abs(person.shape[:, :1]) < 1.5, [[0, 0.4, 0]], 0))
    assert np.abs(reproportioned(wanted, longer, 1.0) - points).max() > 1


def test_features_move_farther_than_two_forms_differ_and_the_outline_stays() -> None:
    points, person = head(), identity()
    nose = np.exp(-((person.shape - person.shape[4]) ** 2).sum(axis=1) / 2)
    lower = replace(person, shape=person.shape + nose[:, None] * [0, 0.3, 0])
    moved = reproportioned(target(plate(), points, rest=person.shape), lower, 1.0)
    at = placement(points)
    by = at.undo(moved[:VERTICES]) - at.undo(points[:VERTICES])
    assert 0.33 < by[4, 1] < 0.4
    assert np.abs(by[list(OVAL)]).max() < 1e-6


def test_irises_are_kept_up_to_the_lids_whose_rims_are_the_identitys() -> None:
    points = head(size=200)
    for eye in (468, 473):
        points[eye + 1 : eye + 5] += points[eye + 1 : eye + 5] - points[eye]  # as large as the opening is high
    kept, balls = kept_of(points, (240, 320), width=140.0), eyeballs(points, (240, 320))
    for centre in (468, 473):
        column, row = np.rint(points[centre, :2]).astype(int)
        inside = row - 20 + np.flatnonzero(balls[row - 20 : row + 20, column] > 0.9)
        assert kept[inside, column].min() > 0.5
    rim = (balls > 0.9) & (cv2.erode(balls, np.ones((3, 3), np.uint8)) < 0.5)
    assert kept[rim].min() < 0.5


def test_an_eye_ten_pixels_high_is_the_plates_but_for_the_rims_of_its_lids() -> None:
    """The edge of what is kept is softened once; twice, it took a twentieth of what lies a pixel inside the lids."""
    shot, points = plate(), head()
    for eye in (RIGHT_EYE, LEFT_EYE):
        lids, middle = list(eye[1:8] + eye[9:]), points[list(eye), 1].mean()
        points[lids, 1] = middle + 10 * (points[lids, 1] - middle) / np.ptp(points[list(eye), 1])
    before = copied(shot)[0].astype(float)
    swap(shot, target(shot, points), identity(), PLAIN)
    seen = cv2.erode(eyeballs(points, (240, 320)), np.ones((3, 3), np.uint8)) > 0.9
    fine, made = (values[seen] - values[seen].mean() for values in (before, shot.planes[0].astype(float)))
    assert (fine @ made) / (fine @ fine) > 0.97
