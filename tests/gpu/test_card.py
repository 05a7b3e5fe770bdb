"""The card itself: kernels against their twins, NVDEC against the software decoder, memory over many chunks."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from farm.faces.cuda.backend import NumpyKernels
from farm.faces.cuda.crop import Packing, crop_plan
from farm.faces.cuda.paste import coverage, paste_plan
from farm.faces.neural_boost import to_phases
from farm.faces.neural_masks import box_mask
from farm.inference import providers as ep
from farm.inference.bound import GRAPHS, open_bound
from farm.inference.buckets import Buckets
from farm.inference.catalogue import Catalogue
from farm.inference.standins import stand_in
from farm.media import nvdec
from farm.resources import resource
from tests.unit.gpu.material import noise, surface, toned
from tests.unit.gpu.test_twins import BGR, ODD, PLAIN, TURN

pytestmark = pytest.mark.gpu
CHUNKS = 200
COUNT = 48
GROWTH_MIB = 64


@pytest.fixture(scope="module")
def card() -> Any:
    pytest.importorskip("cupy", reason="needs CuPy")
    if not nvdec.claim_primary_context():
        pytest.skip("no CUDA driver")
    from farm.faces.cuda.device import CudaKernels

    return CudaKernels()


@pytest.fixture(scope="module")
def plate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plate") / "plate.mp4"
    random = np.random.default_rng(1)
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream("libx264", rate=24)
        stream.width, stream.height, stream.pix_fmt = 320, 192, "yuv420p"
        stream.options = {"x264-params": "keyint=12:min-keyint=12:scenecut=0"}
        for index in range(COUNT):
            picture = np.kron(random.integers(0, 256, (12, 20, 3)), np.ones((16, 16, 1))).astype(np.uint8)
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24").reformat(format="yuv420p")
            frame.pts, frame.time_base = index, Fraction(1, 24)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


@pytest.mark.parametrize("depth", [8, 10])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("tensor", [PLAIN, ODD], ids=["plain", "odd"])
def test_crop(card: Any, depth: int, dtype: type, tensor: Any) -> None:
    place = surface(depth=depth)
    frames, packing = noise(place), Packing.of(tensor)
    plan = crop_plan(np.array([1, 0]), np.stack([TURN, TURN * 1.5]))
    shape = (8, 16, 16, 3) if packing.interleaved else (8, 3, 16, 16)
    told = np.zeros(shape, dtype)
    NumpyKernels().crop(frames, place, plan, packing, told, side=32, phases=2)
    made, given = card.empty(shape, dtype), card.empty(frames.shape, frames.dtype)
    card.upload(frames, given)
    card.crop(given, place, plan, packing, made, side=32, phases=2)
    np.testing.assert_array_equal(card.download(made), told)


@pytest.mark.parametrize("depth", [8, 10])
def test_paste_keeps_what_the_mask_does_not_touch(card: Any, depth: int) -> None:
    place = surface(depth=depth)
    frames = noise(place)
    plan = paste_plan(place, np.array([0, 1, 1]), np.stack([TURN, TURN, TURN + 2]), 16)
    faces = np.random.default_rng(3).random((3, 3, 16, 16)).astype(np.float32)
    mask, table = box_mask(16), np.array([1, 0, 1], np.float32)
    told = frames.copy()
    NumpyKernels().paste(told, place, plan, faces, Packing.of(PLAIN), mask, table)
    arrays = []
    for host in (frames, faces, mask, table):
        arrays.append(card.empty(host.shape, host.dtype))
        card.upload(host, arrays[-1])
    card.paste(arrays[0], place, plan, arrays[1], Packing.of(PLAIN), arrays[2], arrays[3])
    made = card.download(arrays[0])
    np.testing.assert_array_equal(made, told)
    untouched = ~coverage(place, plan, len(frames), mask)
    np.testing.assert_array_equal(made[untouched], frames[untouched])


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("tensor", [PLAIN, BGR], ids=["plain", "bgr"])
@pytest.mark.parametrize("phases", [1, 2])
def test_colours_are_matched_and_checked_as_the_twins_do(card: Any, dtype: type, tensor: Any, phases: int) -> None:
    *pictures, masks, plan = toned(phases, 0.9)
    packing = Packing.of(tensor)
    given, told = (
        (to_phases(one, 16).transpose(0, 3, 1, 2) * packing.pack[0] + packing.pack[3]).astype(dtype) for one in pictures
    )
    arrays = []
    for host in (given, told, masks):
        arrays.append(card.empty(host.shape, host.dtype))
        card.upload(np.ascontiguousarray(host), arrays[-1])
    usable, box = card.empty((2,), np.float32), arrays[2][0]
    card.usable(arrays[1], 2, packing, box, phases, out=usable)
    assert card.download(usable).tolist() == [1, 1]
    before = told.copy()
    NumpyKernels().recolour(given, told, packing, packing, masks, plan, phases, share=0.8)
    card.recolour(arrays[0], arrays[1], packing, packing, arrays[2], plan, phases, share=0.8)
    made = card.download(arrays[1]).astype(np.float32)
    np.testing.assert_allclose(made, told.astype(np.float32), atol=1e-5 if dtype is np.float32 else 2e-3)
    assert np.abs(made - before).max() > 0.05


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("tensor", [PLAIN, BGR], ids=["plain", "bgr"])
def test_restored_crops_are_mixed_in_as_the_twin_does(card: Any, dtype: type, tensor: Any) -> None:
    packing, plain = Packing.of(tensor), Packing.of(PLAIN)
    given, made = np.random.default_rng(12).random((2, 3, 3, 16, 16)).astype(dtype)
    reach, told = np.array([0, 2, 1], np.int32), np.zeros((3, 3, 16, 16), np.float32)
    NumpyKernels().mix(given, made, reach, plain, packing, blend=0.8, out=told)
    arrays = []
    for host in (given, made, np.zeros_like(told)):
        arrays.append(card.empty(host.shape, host.dtype))
        card.upload(host, arrays[-1])
    card.mix(arrays[0], arrays[1], reach, plain, packing, blend=0.8, out=arrays[2])
    np.testing.assert_allclose(card.download(arrays[2]), told, atol=1e-6)


def decoded(path: Path) -> Iterator[Any]:
    """Pictures that the card's decoder leaves on the card."""
    with av.open(str(path), hwaccel=nvdec.card_decoder()) as container:
        yield from container.decode(video=0)


def test_decoded_pictures_are_taken_and_fetched_bit_for_bit(card: Any, plate: Path) -> None:
    place = surface(320, 192)
    batch = card.empty((COUNT, place.rows, place.width), place.dtype)
    for index, picture in enumerate(decoded(plate)):
        card.take(picture, place, batch[index])
    card.after(card.mark())
    made = card.planes(batch, place)
    with av.open(str(plate)) as container:
        told = [np.concatenate([np.frombuffer(p, np.uint8) for p in _tight(f)]) for f in container.decode(video=0)]
    np.testing.assert_array_equal(made.reshape(COUNT, -1), np.stack(told))


def _tight(picture: Any) -> list[bytes]:
    return [np.ascontiguousarray(np.from_dlpack(plane)).tobytes() for plane in picture.planes]


@pytest.mark.parametrize("depth", [8, 10])
def test_planes_are_the_twin_s_and_their_memory_is_used_again(card: Any, depth: int) -> None:
    place = surface(depth=depth)
    frames = noise(place, 3)
    given = card.empty(frames.shape, frames.dtype)
    card.upload(frames, given)
    made = card.planes(given, place)
    np.testing.assert_array_equal(made, NumpyKernels().planes(frames, place))
    where = made.ctypes.data
    kept = made[1:]
    assert card.planes(given, place).ctypes.data != where
    del made, kept
    assert where in [card.planes(given, place).ctypes.data for _ in range(2)]


def test_a_recorded_network_gives_what_a_plain_one_gives(card: Any) -> None:
    spec = Catalogue.load(resource("models")).spec("inswapper-128")
    network = open_bound(stand_in(spec), 4, requested=[ep.CUDA], stream=card.stream, tuning=GRAPHS)
    assert network.graphs
    buckets = Buckets([network], 8, card.empty)
    random = np.random.default_rng(5)
    for _ in range(3):
        targets, sources = random.random((7, 3, 128, 128), np.float32), random.random((7, 512), np.float32)
        card.upload(targets, buckets.arrays["target"])
        card.upload(sources, buckets.arrays["source"])
        buckets.run(7)
        made = card.download(buckets.arrays["output"][:7])
        np.testing.assert_allclose(made, targets / 2 + sources[:, :3, None, None] / 4, rtol=1e-6)
    buckets.close()


def test_memory_is_flat_over_many_chunks(card: Any, plate: Path) -> None:
    import cupy

    place = surface(320, 192)
    batch = card.empty((COUNT, place.rows, place.width), place.dtype)
    free = []
    for _ in range(CHUNKS):
        for index, picture in enumerate(decoded(plate)):
            card.take(picture, place, batch[index])
        card.wait()
        free.append(cupy.cuda.runtime.memGetInfo()[0] >> 20)
    assert free[10] - free[-1] <= GROWTH_MIB
