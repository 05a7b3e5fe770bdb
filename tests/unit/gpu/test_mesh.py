"""Mesh-warp on the device: its steps against the processor's swap, and the kernels' source against their twins."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from farm.faces import meshwarp
from farm.faces.bank import Bank
from farm.faces.cuda import blur
from farm.faces.cuda import mesh_device as do
from farm.faces.cuda.canvas import Canvases, plan_of_unrolling
from farm.faces.cuda.mesh_device import KERNELS, Kernel, MeshDevice, NumpyMesh
from farm.faces.cuda.mesh_plan import MeshFace, mesh_face
from farm.faces.cuda.mesh_step import Laid, MeshStep, groups
from farm.faces.cuda.raster import Drawing, raster_draw
from farm.faces.cuda.surface import Surface
from farm.faces.dressing import dressed
from farm.faces.geometry import placement
from farm.faces.hands import Hand
from farm.faces.identity import PreparedIdentity
from farm.faces.lids import lidded
from farm.faces.mesh import LEFT_EYE, RIGHT_EYE, VERTICES, rasterise
from farm.faces.meshwarp import SwapSettings
from farm.faces.target import Target
from farm.faces.texture import SIZE, atlas, unwrap
from farm.media.colour import region_to_rgb
from farm.media.frame import Frame
from tests.unit.faces.people import frame, head, identity
from tests.unit.gpu.emulation import Emulated, EmulatedMesh
from tests.unit.gpu.material import noise
from tests.unit.gpu.material import surface as made_surface

LEAST_DB = 55.0
COMPILER = shutil.which("g++") or shutil.which("clang++")
compiled = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler to run the kernels' source with")
SETTINGS = SwapSettings(min_sharpness=0)


def plate() -> Frame:
    """A soft picture with noise on it, in colour."""
    random = np.random.default_rng(5)
    soft = cv2.resize(random.integers(60, 190, (15, 20)).astype(np.float32), (320, 240), interpolation=cv2.INTER_CUBIC)
    shot = frame(np.clip(soft + random.normal(0, 4, soft.shape), 16, 235).astype(np.uint8))
    chroma = [np.clip(plane + random.normal(0, 6, plane.shape), 16, 240).astype(np.uint8) for plane in shot.planes[1:]]
    return replace(shot, planes=(shot.planes[0], *chroma))


def person() -> PreparedIdentity:
    """Somebody with a pattern for a face, brown eyes, and another form than the canonical head's."""
    random = np.random.default_rng(6)
    pattern = cv2.resize(random.random((40, 40, 3)).astype(np.float32), (512, 512), interpolation=cv2.INTER_CUBIC)
    detail = np.clip(np.float32([0.7, 0.5, 0.4]) + 0.3 * (pattern - 0.5), 0, 1).astype(np.float32)
    coarse = cv2.resize(detail, (SIZE, SIZE), interpolation=cv2.INTER_AREA)
    someone = identity()
    shape = someone.shape * [1.06, 0.97, 1.0]
    lids = lidded(detail, someone.skin)
    iris = np.float32([0.3, 0.2, 0.1])
    return replace(someone, detail=detail, texture=coarse, shape=shape, iris=iris, lids=lids)


def banked(someone: PreparedIdentity, side: int) -> PreparedIdentity:
    """The same with a bank of three frames."""
    detail = cv2.resize(someone.detail, (side, side), interpolation=cv2.INTER_AREA)
    details = np.stack([np.clip(detail * (255 - 20 * k), 0, 255) for k in range(3)]).astype(np.uint8)
    none = np.zeros(3, np.float32)
    skins = np.full((3, SIZE, SIZE), 255, np.uint8)
    traits = np.zeros((3, 57), np.float32)
    return replace(someone, bank=Bank(traits, none.astype(np.int32), none, none + 1, details, skins))


def target(shot: Frame, points: NDArray[np.float64], **more: Any) -> Target:
    rgb = region_to_rgb(shot, (0, 0, shot.width, shot.height))
    skin = atlas().inside.astype(np.float32)
    rest = placement(points).undo(points[:VERTICES])
    iris = np.float32([0.4, 0.5, 0.6])
    return replace(Target(points=points, texture=unwrap(rgb, points), skin=skin, rest=rest, iris=iris), **more)


def blinking() -> NDArray[np.float64]:
    points = head(yaw=14, roll=6)
    for eye in (RIGHT_EYE, LEFT_EYE):
        points[list(eye[1:8]), 1] = points[list(eye[9:][::-1]), 1] - 1.0
    return points


def hand(x: float, y: float) -> Hand:
    fingers = [(x + 8 * finger, y + 5 * joint) for finger in range(5) for joint in range(4, 0, -1)]
    return Hand(np.array([(x + 16, y + 40), *fingers], np.float64), 0.9, np.eye(2, 3))


SHARES = np.array([[0.6, 0.4, 0], [0, 1, 0], [0, 0.2, 0.8]], np.float32)
CASES: dict[str, tuple[Target, PreparedIdentity, NDArray[np.float32] | None]] = {
    "turned": (target(plate(), head(yaw=20, pitch=-8, roll=10)), person(), None),
    "eyes shut": (target(plate(), blinking()), person(), None),
    "a hand": (target(plate(), head(), hands=(hand(120, 110),)), person(), None),
    "beside the frame": (target(plate(), head(centre=(20, 60))), person(), None),
    "a bank": (target(plate(), head(yaw=-10)), banked(person(), 512), SHARES),
    "a small bank, eyes shut": (target(plate(), blinking()), banked(person(), 256), SHARES),
    "large": (target(plate(), head(size=400)), person(), None),
}


def planned(case: str, shot: Frame) -> MeshFace:
    who, someone, shares = CASES[case]
    return mesh_face(0, shot, who, someone, shares, SETTINGS, lambda box: region_to_rgb(shot, box))


def on_device(device: MeshDevice, case: str) -> tuple[Frame, Laid]:
    shot = plate()
    surface = Surface.of(shot)
    frames = np.zeros((1, surface.rows, surface.width), surface.dtype)
    surface.pack(shot, frames[0])
    [told] = MeshStep(device, surface, SETTINGS).lay(frames, [planned(case, shot)], masks=True)
    return surface.unpack(frames[0], shot), told


def decibels(one: Frame, other: Frame, whole: NDArray[np.bool_]) -> float:
    """Where either differs from the plate; outside the mask they must not differ at all."""
    half = whole.reshape(whole.shape[0] // 2, 2, whole.shape[1] // 2, 2).any(axis=(1, 3))
    near = np.asarray(cv2.dilate(half.astype(np.uint8), np.ones((3, 3), np.uint8)), bool)
    errors = []
    for a, b, where in zip(one.planes, other.planes, (whole, near, near), strict=True):
        assert np.array_equal(a[~where], b[~where])
        errors.append((a.astype(float) - b)[where])
    return float(10 * np.log10(255**2 / max(1e-9, np.mean(np.concatenate(errors) ** 2))))


@pytest.mark.parametrize("case", CASES)
def test_a_face_is_painted_as_the_processor_paints_it(case: str) -> None:
    who, someone, shares = CASES[case]
    shot = plate()
    shown = someone if shares is None else dressed(someone, shares)
    patch = meshwarp.swap(shot, who, shown, SETTINGS)
    made, told = on_device(NumpyMesh(), case)
    assert patch is not None
    assert told.usable
    assert told.changed
    assert told.mask is not None
    assert np.abs(told.mask - patch.mask).max() < 0.02
    whole = np.zeros((240, 320), bool)
    x0, y0, x1, y1 = patch.box
    whole[y0:y1, x0:x1] = (patch.mask > 0) | (told.mask > 0)
    assert np.abs(shot.planes[0].astype(int) - plate().planes[0])[whole].mean() > 3
    assert decibels(made, shot, whole) > LEAST_DB


def test_faces_of_a_batch_do_not_know_of_each_other() -> None:
    shot = plate()
    surface = Surface.of(shot)
    frames = np.zeros((len(CASES), surface.rows, surface.width), surface.dtype)
    for picture in frames:
        surface.pack(shot, picture)
    faces = [replace(planned(case, shot), place=place) for place, case in enumerate(CASES)]
    MeshStep(NumpyMesh(), surface, SETTINGS).lay(frames, faces, masks=False)
    for picture, case in zip(frames, CASES, strict=True):
        alone, _ = on_device(NumpyMesh(), case)
        for a, b in zip(surface.unpack(picture, shot).planes, alone.planes, strict=True):
            assert np.array_equal(a, b)


def test_groups_hold_textures_of_one_size_and_no_more_pixels_than_there_is_room_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    face = planned("turned", plate())
    small = planned("a small bank, eyes shut", plate())
    monkeypatch.setattr("farm.faces.cuda.mesh_step.ROOM", 2 * face.pixels)
    sizes = [len(some) for some in groups([face, face, face, small, face])]
    assert sizes == [2, 1, 1, 1]


def test_a_face_with_values_that_are_no_number_is_left_as_it_is() -> None:
    shot = plate()
    surface = Surface.of(shot)
    frames = np.zeros((1, surface.rows, surface.width), surface.dtype)
    surface.pack(shot, frames[0])
    before = frames.copy()
    face = planned("turned", shot)
    broken = np.full_like(face.identity.detail, np.nan)
    [told] = MeshStep(NumpyMesh(), surface, SETTINGS).lay(
        frames, [replace(face, identity=replace(face.identity, detail=broken))], masks=False
    )
    assert not told.usable
    assert np.array_equal(frames, before)


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Emulated:
    assert COMPILER is not None
    return Emulated(tmp_path_factory.mktemp("kernels"), COMPILER)


class Compared(NumpyMesh):
    """Runs every kernel beside its twin, with the twin's results going on."""

    def __init__(self, kernels: Emulated) -> None:
        self._kernels = EmulatedMesh(kernels)
        self.seen: set[str] = set()

    def run(self, kernel: Kernel, threads: int, deep: int, *arguments: Any, surface: Surface | None = None) -> None:
        copies = tuple(a.copy() if isinstance(a, np.ndarray) else a for a in arguments)
        self._kernels.run(kernel, threads, deep, *copies, surface=surface)
        super().run(kernel, threads, deep, *arguments, surface=surface)
        self.seen.add(kernel.function)
        for mine, told in zip(copies, arguments, strict=True):
            if isinstance(told, np.ndarray):
                same(kernel, mine, told)


def same(kernel: Kernel, mine: NDArray[Any], told: NDArray[Any]) -> None:
    if np.issubdtype(told.dtype, np.integer):
        assert np.array_equal(mine, told), kernel.function
    else:
        assert np.allclose(mine, told, rtol=1e-4, atol=2e-6), (kernel.function, np.abs(mine - told).max())


@compiled
@pytest.mark.parametrize("case", CASES)
def test_the_kernels_source_does_what_the_twins_do(kernels: Emulated, case: str) -> None:
    device = Compared(kernels)
    on_device(device, case)
    assert device.seen == {kernel.function for kernel in KERNELS} - {"unroll"}


@compiled
@pytest.mark.parametrize("depth", [8, 10])
def test_frames_to_canvases_and_back_in_either_depth(tmp_path_factory: pytest.TempPathFactory, depth: int) -> None:
    assert COMPILER is not None
    device = Compared(Emulated(tmp_path_factory.mktemp("depth"), COMPILER, depth=depth))
    place = made_surface(depth=depth, location="topleft")
    frames, random = noise(place, 2), np.random.default_rng(2)
    canvases = Canvases.of([1, 0], [(3, 5, 40, 31), (0, 0, 96, 64)])
    where = (canvases.frame_of, canvases.box, canvases.start)
    rgb = np.zeros((canvases.pixels, 3), np.float32)
    device.run(do.RGB, canvases.most, 2, frames, *where, rgb, surface=place)
    told = region_to_rgb(place.unpack(frames[1], place.planar), (3, 5, 40, 31))
    np.testing.assert_allclose(rgb[: 37 * 26].reshape(26, 37, 3), told, atol=2e-6)
    mask = (random.random(canvases.pixels) * (random.random(canvases.pixels) > 0.5)).astype(np.float32)
    laid = frames.copy()
    made = random.random(rgb.shape).astype(np.float32)
    flags = np.array([[0, 1], [1, 1]], np.int32)
    device.run(do.LAY, 60 * 40, 2, laid, *where, made, mask, flags, 60, surface=place)
    assert (laid[1] != frames[1]).mean() > 0.05
    assert np.array_equal(laid[0], frames[0])


@compiled
def test_a_face_is_unrolled_as_the_processor_unrolls_it(kernels: Emulated) -> None:
    shot, points = plate(), head(yaw=12)
    surface = Surface.of(shot)
    frames = np.zeros((2, surface.rows, surface.width), surface.dtype)
    surface.pack(shot, frames[1])
    out = np.zeros((1, SIZE * SIZE, 3), np.float32)
    placed = points[None, :VERTICES, :2].astype(np.float32)
    Compared(kernels).run(
        do.UNROLL, SIZE * SIZE, 1, frames, np.array([1], np.int32), placed, VERTICES, *plan_of_unrolling(),
        SIZE * SIZE, out, surface=surface,
    )  # fmt: skip
    told = unwrap(region_to_rgb(shot, (0, 0, shot.width, shot.height)), points)
    assert np.abs(out[0].reshape(told.shape) - told).max() < 2e-3


@compiled
@pytest.mark.parametrize("points", [head(yaw=50, pitch=20), head(size=40), head(centre=(-20, 30), roll=70)])
def test_triangles_are_drawn_pixel_for_pixel_as_opencv_draws_them(
    kernels: Emulated, points: NDArray[np.float64]
) -> None:
    shape = (240, 320)
    drawing = Drawing.of(points, points, shape)
    canvases = Canvases.of([0], [(0, 0, 320, 240)])
    told, made = np.zeros(240 * 320, np.int32), np.zeros(240 * 320, np.int32)
    raster_draw(canvases.box, canvases.start, 898, drawing.fixed[None], drawing.rank[None], told)
    kernels.launch("raster_draw", 898, canvases.box, canvases.start, 898, drawing.fixed[None], drawing.rank[None], made)
    assert np.array_equal(made, told)
    ids = np.where(told > 0, drawing.order[told - 1], -1).reshape(shape)
    same_ids = ids == rasterise(points[:VERTICES], shape, depth=points[:VERTICES, 2]).ids
    # OpenCV bends lines that leave its canvas by a fraction of a pixel.
    assert same_ids.all() if points.min() > 0 else same_ids.mean() > 0.999


@pytest.mark.parametrize("sigmas", [(0.5,), (1.5, 6.0), (3.3, 0.7)])
def test_blurs_are_opencvs(sigmas: Sequence[float]) -> None:
    random = np.random.default_rng(4)
    canvases = Canvases.of([0] * len(sigmas), [(0, 0, 31, 17), (2, 3, 12, 60)][: len(sigmas)])
    given = random.random((canvases.pixels, 2)).astype(np.float32)
    most, radius, weights = blur.weights_of(sigmas)
    across, out = np.zeros_like(given), np.zeros_like(given)
    for step, source, made in ((blur.ACROSS, given, across), (blur.DOWN, across, out)):
        blur.blur(canvases.box, canvases.start, 2, step, most, radius, weights, source, made)
    for face, sigma in enumerate(sigmas):
        width, height = canvases.sizes[face]
        some = slice(canvases.start[face], canvases.start[face] + width * height)
        told = cv2.GaussianBlur(given[some].reshape(height, width, 2), (0, 0), sigma)
        np.testing.assert_allclose(out[some].reshape(told.shape), told, atol=2e-6)
