"""The NumPy twins of the kernels against the CPU path's own functions."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from farm.faces import geometry
from farm.faces.cuda import crop, lab, mix, paste, planar, usable
from farm.faces.cuda.crop import Letterbox, Packing, crop_plan
from farm.faces.cuda.crop_step import _whole_frames
from farm.faces.cuda.places import first_crops, next_crops, similarities
from farm.faces.detect import Detection
from farm.faces.lab import matched, to_lab, to_rgb
from farm.faces.landmarks import crop_for
from farm.faces.neural_boost import to_phases
from farm.faces.neural_masks import box_mask
from farm.faces.neural_tensors import to_tensor
from farm.inference.spec import Tensor
from farm.media.colour import paste_rgb, region_to_rgb
from farm.media.frame import Frame
from tests.unit.gpu.material import noise, surface, toned

PLAIN = Tensor(name="t", shape=("N", 3, 16, 16), kind="image", layout="NCHW", colour="RGB", size=16)
ODD = Tensor(
    name="t", shape=("N", 16, 16, 3), kind="image", layout="NHWC", colour="BGR", range=(0.0, 255.0),
    mean=(1.0, 2.0, 3.0), std=(2.0, 2.0, 4.0), denormalise=True, size=16,
)  # fmt: skip
BGR = Tensor(
    name="t", shape=("N", 3, 16, 16), kind="image", layout="NCHW", colour="BGR", range=(-1.0, 1.0), size=16,
)  # fmt: skip
TURN = np.array([[1.4, -0.3, 30.0], [0.3, 1.4, 12.0]])


def _planar(place: object, picture: np.ndarray) -> Frame:
    return place.unpack(picture, place.planar)  # type: ignore[attr-defined]


@pytest.mark.parametrize("depth", [8, 10])
@pytest.mark.parametrize("location", ["left", "center", "topleft", "bottom"])
def test_a_crop_of_whole_pixels_is_the_region_that_the_cpu_path_reads(depth: int, location: str) -> None:
    place = surface(depth=depth, location=location)
    frames = noise(place)
    shifted = np.array([[[1.0, 0.0, 20.0], [0.0, 1.0, 10.0]]])
    out = np.zeros((1, 3, 16, 16), np.float32)
    crop.crop(frames, place, crop_plan(np.array([1]), shifted), Packing.of(PLAIN), out, side=16)
    told = region_to_rgb(_planar(place, frames[1]), (20, 10, 36, 26))
    np.testing.assert_allclose(out[0].transpose(1, 2, 0), np.clip(told, 0, 1), atol=2e-5)


def test_a_letterbox_averages_the_frame_and_leaves_the_rest_empty() -> None:
    place = surface(96, 48)
    frames = noise(place)
    box = Letterbox.of(place, 32)
    out = np.full((2, 3, 32, 32), 9, np.float32)
    crop.crop(frames, place, box.plan(np.arange(2)), Packing.of(PLAIN), out, side=32, filled=box.filled)
    assert box.filled == (32, 16)
    assert not out[:, :, 16:].any()
    whole = region_to_rgb(_planar(place, frames[0]), (0, 0, 96, 48))
    means = np.clip(whole.reshape(16, 3, 32, 3, 3).mean(axis=(1, 3)), 0, 1)
    np.testing.assert_allclose(out[0, :, :16].transpose(1, 2, 0), means, atol=2e-5)


def test_packing_is_that_of_the_contract_and_phases_those_of_the_pixel_boost() -> None:
    place = surface()
    frames = noise(place)
    plan = crop_plan(np.array([0]), TURN[None])
    plain, odd = np.zeros((1, 3, 32, 32), np.float32), np.zeros((4, 16, 16, 3), np.float32)
    crop.crop(frames, place, plan, Packing.of(PLAIN), plain, side=32)
    crop.crop(frames, place, plan, Packing.of(ODD), odd, side=32, phases=2)
    told = to_tensor(to_phases(plain.transpose(0, 2, 3, 1), 16), ODD)
    np.testing.assert_allclose(odd, told, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("depth", [8, 10])
@pytest.mark.parametrize("location", ["left", "center", "topleft", "bottomleft"])
def test_paste_is_that_of_the_media_room(depth: int, location: str) -> None:
    place = surface(depth=depth, location=location)
    frames = noise(place)
    before = frames.copy()
    made = np.random.default_rng(5).random((1, 3, 32, 32)).astype(np.float32)
    masks = box_mask(32)
    plan = paste.paste_plan(place, np.array([1]), TURN[None], 32)
    paste.paste(frames, place, plan, made, Packing.of(PLAIN), masks, np.ones(1, np.float32))
    assert np.array_equal(frames[0], before[0])

    left, top, right, bottom = plan.box[0]
    grid = paste._Grid.of(plan.affine[0], (left, top, right, bottom), masks[0], np.float32(1))
    rgb = grid.colours(paste.woven(made, 1), Packing.of(PLAIN))
    told = _planar(place, before[1])
    paste_rgb(told, (left, top, right, bottom), rgb, grid.weight)
    mine = _planar(place, frames[1])
    for plane, other in zip(mine.planes, told.planes, strict=True):
        # Sums in another order may round a value that lies on the half another way.
        assert np.abs(plane.astype(int) - other.astype(int)).max() <= 1
        assert np.mean(plane != other) < 1e-3
    assert (mine.planes[0] != _planar(place, before[1]).planes[0]).any()
    touched = paste.coverage(place, plan, 2, masks)
    assert np.array_equal(frames[~touched], before[~touched])
    # Nearly every sample that may change does: noise is pasted on noise.
    assert np.mean(frames[touched] != before[touched]) > 0.8


@pytest.mark.parametrize("depth", [8, 10])
def test_planes_are_those_that_a_frame_is_unpacked_to(depth: int) -> None:
    place = surface(90, 62, depth=depth)
    frames = noise(place)
    made = np.empty_like(frames)
    planar.planar(frames, place, made)
    for picture, told in zip(made, frames, strict=True):
        split, frame = place.split(picture, place.planar), _planar(place, told)
        for mine, other in zip(split.planes, frame.planes, strict=True):
            np.testing.assert_array_equal(mine, other)
            assert mine.base is not None


def test_a_crop_that_is_no_picture_leaves_the_frame_alone() -> None:
    place = surface()
    frames = noise(place)
    before = frames.copy()
    made = np.random.default_rng(1).random((3, 3, 16, 16)).astype(np.float32)
    made[0, 1, 3, 3] = np.nan
    made[1] = 0.5
    table = usable.usable(made, Packing.of(PLAIN), box_mask(16)[0], 1)
    assert table.tolist() == [0, 0, 1]
    plan = paste.paste_plan(place, np.array([0, 1]), np.stack([TURN, TURN]), 16)
    paste.paste(frames, place, plan, made, Packing.of(PLAIN), box_mask(16), table)
    assert np.array_equal(frames, before)


def test_lab_there_and_back_is_opencv_s() -> None:
    rgb = np.random.default_rng(6).random((64, 64, 3)).astype(np.float32)
    rgb[0, :4] = [[0, 0, 0], [1, 1, 1], [0.01, 0.02, 0.01], [1, 0, 0]]
    values = to_lab(rgb)
    # OpenCV reads it from a table of 33 steps a channel; its way back is the formula.
    np.testing.assert_allclose(values, cv2.cvtColor(rgb, cv2.COLOR_RGB2LAB), atol=0.8)
    np.testing.assert_allclose(to_rgb(values), cv2.cvtColor(values, cv2.COLOR_LAB2RGB), atol=2e-4)
    np.testing.assert_allclose(to_rgb(values), rgb, atol=1e-4)
    np.testing.assert_allclose(values[0, :2], [[0, 0, 0], [100, 0, 0]], atol=1e-2)


@pytest.mark.parametrize(("strength", "share"), [(1.0, 1.0), (0.8, 0.5), (0.4, 1.0)])
@pytest.mark.parametrize("tensor", [PLAIN, BGR], ids=["plain", "bgr"])
@pytest.mark.parametrize("phases", [1, 2])
def test_colours_are_matched_as_the_processor_matches_them(
    phases: int, tensor: Tensor, strength: float, share: float
) -> None:
    """.4 of a mask is never over a half, so that nothing is matched."""
    packing = Packing.of(tensor)
    given, made, masks, plan = toned(phases, strength)
    tensors = [
        to_phases(pictures, 16).transpose(0, 3, 1, 2)[:, :: -1 if packing.swapped else 1].copy()
        * packing.pack[:3, None, None]
        + packing.pack[3:, None, None]
        for pictures in (given, made)
    ]
    lab.recolour(*tensors, packing, packing, masks, plan, phases, share=share)
    for face in range(2):
        told = matched(made[face], given[face], masks[face] * np.float32(strength) > 0.5, share)
        stored = paste.woven(tensors[1][face * phases**2 : (face + 1) * phases**2], phases)
        mine = stored * packing.unpack[:3] + packing.unpack[3:]
        np.testing.assert_allclose(mine[..., :: -1 if packing.swapped else 1], told, atol=1e-5)
        moved = np.abs(told - made[face]).max()
        assert moved == 0 if strength < 0.5 else moved > 0.05


def test_a_restored_crop_is_mixed_in_and_averaged_where_it_will_shrink() -> None:
    given, made = np.random.default_rng(3).random((2, 1, 16, 16, 3)).astype(np.float32)
    packing, out = Packing.of(BGR), np.zeros((1, 3, 16, 16), np.float32)
    tensors = [to_tensor(picture, BGR) for picture in (given, made)]
    mix.mix(*tensors, np.zeros(1, np.int32), packing, packing, blend=0.3, out=out)
    told = given[0] + (made[0] - given[0]) * np.float32(0.3)
    np.testing.assert_allclose(out[0].transpose(1, 2, 0), told, atol=1e-6)
    mix.mix(*tensors, np.ones(1, np.int32), packing, packing, blend=0.3, out=out)
    told = cv2.blur(told, (3, 3), borderType=cv2.BORDER_REPLICATE)
    np.testing.assert_allclose(out[0].transpose(1, 2, 0), told, atol=1e-6)
    turned = np.array([[0.6, -0.8, 3], [0.8, 0.6, 5]], np.float32)
    affine = np.stack([(turned * scale).ravel() for scale in (0.5, 1.6, 2.2, 4.1)])
    assert mix.reaches(affine).tolist() == [0, 0, 1, 2]


def test_faces_of_one_frame_are_laid_one_after_the_other() -> None:
    plan = paste.paste_plan(surface(), np.array([0, 1, 1, 2, 1]), np.stack([TURN] * 5), 16)
    assert plan.layers.tolist() == [0, 0, 1, 0, 2]


def test_groups_split_no_frame() -> None:
    frame_of = np.array([0, 0, 1, 1, 1, 2], np.int32)
    assert _whole_frames(frame_of, 0, 4) == 2
    assert _whole_frames(frame_of, 2, 3) == 5
    assert _whole_frames(frame_of, 5, 4) == 6


def test_crops_for_many_faces_are_those_for_one() -> None:
    random = np.random.default_rng(4)
    points = random.random((3, 478, 3)) * 200 + 50
    for one, made in zip(points, next_crops(points, 256), strict=True):
        np.testing.assert_allclose(geometry.compose(crop_for(one), made), [[1, 0, 0], [0, 1, 0]], atol=1e-7)
    box = np.array([[10.0, 20.0, 110.0, 140.0]])
    five = random.random((1, 5, 2)) * 100
    face = Detection(box[0], five[0], 1.0)
    eyes = five[0, 1] - five[0, 0]
    told = geometry.crop_around(
        (box[0, :2] + box[0, 2:]) / 2, face.size * 1.5, float(np.arctan2(eyes[1], eyes[0])), 256
    )
    made = first_crops(box, five, 256)[0]
    np.testing.assert_allclose(geometry.compose(told, made), [[1, 0, 0], [0, 1, 0]], atol=1e-7)


def test_similarities_for_many_are_those_for_one() -> None:
    random = np.random.default_rng(6)
    source, targets = random.random((5, 2)), random.random((4, 5, 2)) * 3
    for target, made in zip(targets, similarities(source, targets), strict=True):
        told = geometry.similarity(source, target)
        if np.linalg.det(told[:, :2]) > 0:
            residual = np.abs(geometry.apply(made, source) - target).sum()
            assert residual <= np.abs(geometry.apply(told, source) - target).sum() + 1e-6
        np.testing.assert_allclose(np.linalg.det(made[:, :2]), made[0, 0] ** 2 + made[1, 0] ** 2)
