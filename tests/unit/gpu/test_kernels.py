"""The kernels' source against their twins, on the processor; the card itself is asked by tests/gpu."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from farm.faces.cuda import crop, lab, mix, overlay, paste, planar, usable, yunet
from farm.faces.cuda.crop import Packing, crop_plan
from farm.faces.lab import SPACE
from farm.faces.neural_boost import to_phases
from farm.faces.neural_masks import box_mask
from tests.unit.gpu.emulation import Emulated
from tests.unit.gpu.material import label, noise, surface, toned
from tests.unit.gpu.test_twins import BGR, ODD, PLAIN, TURN

COMPILER = shutil.which("g++") or shutil.which("clang++")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler to run the kernels' source with")


@pytest.fixture(scope="module", params=[8, 10])
def emulated(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Emulated, int]:
    assert COMPILER is not None
    return Emulated(tmp_path_factory.mktemp("kernels"), COMPILER, depth=request.param), request.param


@pytest.mark.parametrize("phases", [1, 2])
@pytest.mark.parametrize("tensor", [PLAIN, ODD], ids=["plain", "odd"])
def test_crop(emulated: tuple[Emulated, int], tensor: crop.Tensor, phases: int) -> None:
    kernels, depth = emulated
    place = surface(depth=depth, location="topleft")
    frames = noise(place)
    outside = np.array([[2.5, 0.2, -9.0], [-0.2, 2.5, 40.0]])
    plan = crop_plan(np.array([1, 0]), np.stack([TURN, outside]))
    packing, side = Packing.of(tensor), 32
    shape = (32 // phases, 32 // phases)
    told = np.zeros((2 * phases**2, *shape, 3) if packing.interleaved else (2 * phases**2, 3, *shape), np.float32)
    made = np.full_like(told, -7)
    crop.crop(frames, place, plan, packing, told, side=side, phases=phases, filled=(32, 20))
    kernels.launch(
        "crop", 2 * side * side, frames, place.width, place.height, place.code, len(plan), plan.frame_of, plan.affine,
        plan.taps, side, side, phases, 32, 20, packing.pack, packing.swapped, packing.interleaved, made,
    )  # fmt: skip
    np.testing.assert_array_equal(made, told)


@pytest.mark.parametrize("phases", [1, 2])
def test_paste(emulated: tuple[Emulated, int], phases: int) -> None:
    kernels, depth = emulated
    place = surface(depth=depth)
    told = noise(place, 3)
    made = told.copy()
    side = 16 * phases
    faces = np.random.default_rng(8).random((3 * phases**2, 3, 16, 16)).astype(np.float32)
    edge = np.array([[1.4, -0.3, -6.0], [0.3, 1.4, -4.0]])
    plan = paste.paste_plan(
        place,
        np.array([0, 2, 2]),
        np.stack([TURN, edge, edge + 3]),
        side,
        mask_of=np.array([0, 1, 0]),
        strength=np.array([1, 0.7, 0.01]),
    )
    table = np.array([1, 0, 1], np.float32)
    masks, unpacking = np.stack([box_mask(side)[0], np.eye(side, dtype=np.float32)]), Packing.of(PLAIN)
    paste.paste(told, place, plan, faces, unpacking, masks, table, phases=phases)
    across = int((plan.box[:, 2] - plan.box[:, 0]).max()) // 2
    down = int((plan.box[:, 3] - plan.box[:, 1]).max()) // 2
    for layer in range(2):
        kernels.launch(
            "paste", across * down, made, place.width, place.height, place.code, len(plan), plan.frame_of, plan.box,
            plan.affine, side, phases, faces, unpacking.unpack, False, masks, plan.mask_of,
            plan.strength, table, layer, plan.layers, across,
            deep=len(plan),
        )  # fmt: skip
    np.testing.assert_array_equal(made, told)
    assert not np.array_equal(made, noise(place, 3))


def test_overlay(emulated: tuple[Emulated, int]) -> None:
    kernels, depth = emulated
    place = surface(depth=depth, location="topleft")
    told = noise(place, 3)
    made = told.copy()
    given = label(place)
    overlay.overlay(told, place, 2, given)
    size = (place.width, place.height, 2)
    for name, box, tables in (
        ("overlay_luma", given.luma, (given.values, given.weight)),
        ("overlay_chroma", given.chroma, (given.cb, given.cr, given.kept)),
    ):
        left, top, columns, rows = box[0], box[1], box[2] - box[0], box[3] - box[1]
        kernels.launch(name, columns * rows, made, *size, left, top, columns, rows, *tables, float(given.top), deep=2)
    np.testing.assert_array_equal(made, told)
    assert not np.array_equal(made[1], noise(place, 3)[1])
    np.testing.assert_array_equal(made[2], noise(place, 3)[2])


def test_planar(emulated: tuple[Emulated, int]) -> None:
    kernels, depth = emulated
    place = surface(90, 62, depth=depth)
    frames = noise(place, 3)
    told, made = np.empty_like(frames), np.zeros_like(frames)
    planar.planar(frames, place, told)
    kernels.launch("planar", place.width * place.height // 4, frames, place.width, place.height, 3, made, deep=3)
    np.testing.assert_array_equal(made, told)


@pytest.mark.parametrize("phases", [1, 2])
def test_usable(emulated: tuple[Emulated, int], phases: int) -> None:
    kernels, _ = emulated
    made = np.random.default_rng(9).random((4 * phases**2, 3, 16, 16)).astype(np.float32)
    made[-1, 2, 1, 1] = np.inf
    made[: phases**2] = 0.25
    mask, packing = box_mask(16 * phases)[0], Packing.of(PLAIN)
    told = usable.usable(made, packing, mask, phases)
    sums, totals = np.zeros((len(made) * 16, usable.SUMS), np.float32), np.zeros((4, usable.SUMS))
    out = np.full(4, -1, np.float32)
    kernels.launch("usable_columns", len(made) * 3 * 16, made, len(made), 16, phases, mask, packing.unpack, sums)
    kernels.launch("usable_totals", 4 * usable.SUMS, sums, 4, phases**2 * 16, totals)
    kernels.launch("usable_faces", 4, totals, 4, float(usable.FLAT), out)
    assert out.tolist() == told.tolist() == [0, 1, 1, 0]


@pytest.mark.parametrize("tensor", [PLAIN, BGR], ids=["plain", "bgr"])
@pytest.mark.parametrize("phases", [1, 2])
def test_recolour(emulated: tuple[Emulated, int], phases: int, tensor: crop.Tensor) -> None:
    kernels, _ = emulated
    *pictures, masks, plan = toned(phases, 0.9)
    packing = Packing.of(tensor)
    given, told = (
        (to_phases(one, 16).transpose(0, 3, 1, 2) * packing.pack[0] + packing.pack[3]).copy() for one in pictures
    )
    masks[1] = 0
    made, before = told.copy(), told.copy()
    lab.recolour(given, told, packing, packing, masks, plan, phases, share=0.8)
    count, swapped = len(made), packing.swapped
    sums, totals = np.zeros((count * 16, lab.SUMS)), np.zeros((2, lab.SUMS))
    moves = np.zeros((2, lab.MOVES), np.float32)
    kernels.launch(
        "lab_columns", count * 16, given, made, count, 16, phases, masks, plan.mask_of, plan.strength,
        packing.pack, swapped, packing.unpack, swapped, SPACE, sums,
    )  # fmt: skip
    kernels.launch("lab_totals", 2 * lab.SUMS, sums, 2, phases**2 * 16, totals)
    kernels.launch("lab_moves", 2, totals, 2, moves)
    kernels.launch("lab_recolour", count * 16 * 16, made, count, 16, phases, packing.unpack, swapped, SPACE, moves, 0.8)
    np.testing.assert_allclose(made, told, atol=1e-5)
    half = phases**2
    assert np.abs(made[:half] - before[:half]).max() > 0.05
    np.testing.assert_array_equal(made[half:], before[half:])


@pytest.mark.parametrize("tensor", [PLAIN, BGR], ids=["plain", "bgr"])
def test_mix(emulated: tuple[Emulated, int], tensor: crop.Tensor) -> None:
    kernels, _ = emulated
    packing, plain = Packing.of(tensor), Packing.of(PLAIN)
    given, made = np.random.default_rng(12).random((2, 2, 3, 16, 16)).astype(np.float32) * 1.2 - 0.1
    reach = np.array([0, 2], np.int32)
    told, out = np.zeros((2, 2, 3, 16, 16), np.float32)
    mix.mix(given, made, reach, plain, packing, blend=0.8, out=told)
    kernels.launch(
        "mix", 2 * 16 * 16, given, made, 2, 16, reach, plain.pack, plain.swapped, packing.unpack, packing.swapped,
        0.8, out,
    )  # fmt: skip
    np.testing.assert_allclose(out, told, atol=1e-6)


@pytest.mark.parametrize("size", [(640, 640), (640, 384)], ids=["square", "wide"])
def test_yunet(emulated: tuple[Emulated, int], size: tuple[int, int]) -> None:
    kernels, _ = emulated
    random, across, down = np.random.default_rng(10), *size
    widths = {"cls": 1, "obj": 1, "bbox": 4, "kps": 10}
    heads = [
        random.normal(0, 0.6, (2, across * down // stride**2, width)).astype(np.float32)
        if width > 1
        else (random.random((2, across * down // stride**2, 1)) * np.float32(0.79)).astype(np.float32)
        for kind, width in widths.items()
        for stride in yunet.STRIDES
    ]
    told_count, told = yunet.faces(heads, 0.7, across)
    found, kept = np.zeros(2, np.int32), np.zeros(2, np.int32)
    fine = across * down // 64
    every = yunet.cells_of(fine)
    cells, scores = np.zeros((2, every), np.int32), np.zeros((2, every), np.float32)
    out = np.zeros((2, yunet.MOST, yunet.FIELDS), np.float32)
    kernels.launch("yunet_cells", 2 * every, *heads, 2, fine, 0.7, found, cells, scores)
    most = float(yunet.MOST_OVERLAP)
    kernels.launch("yunet_faces", 2, *heads, 2, fine, across // 8, most, found, cells, scores, kept, out)
    assert kept.tolist() == told_count.tolist()
    assert told_count.min() > 3
    np.testing.assert_allclose(out, told, rtol=1e-4, atol=1e-3)
