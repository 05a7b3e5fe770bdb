"""The card itself: kernels against their twins, NVDEC against the software decoder, memory over many chunks."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from farm.faces.cuda.backend import NumpyKernels
from farm.faces.cuda.crop import Packing, crop_plan
from farm.faces.cuda.paste import coverage, paste_plan
from farm.faces.neural_masks import box_mask
from farm.inference import providers as ep
from farm.inference.bound import GRAPHS, open_bound
from farm.inference.buckets import Buckets
from farm.inference.catalogue import Catalogue
from farm.inference.standins import stand_in
from farm.media import nvdec
from farm.resources import resource
from tests.unit.gpu.material import noise, surface
from tests.unit.gpu.test_twins import ODD, PLAIN, TURN

pytestmark = pytest.mark.gpu
CHUNKS = 200
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
        for index in range(48):
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
    mask, table = box_mask(16), np.array([[1, 1, 1, 0, 0, 0, 1, 0]] * 3, np.float32)
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


@pytest.mark.parametrize("decoder", [nvdec.NVDEC, nvdec.CPU])
def test_decoded_frames_reach_the_card_bit_for_bit(card: Any, plate: Path, decoder: str) -> None:
    from farm.faces.cuda.lane import BatchPool, lane

    if decoder == nvdec.NVDEC and nvdec.choose_decoder(plate, sample_format="yuv420p").name != nvdec.NVDEC:
        pytest.skip("this card's decoder does not read the plate")
    place = surface(320, 192)
    pool = BatchPool(card, place, 16, 4)
    got, pts = [], []
    for batch in lane(plate, decoder, pool):
        batch.ready.synchronize()
        got.append(batch.array.get()[: len(batch)])
        pts += batch.pts
        pool.give_back(batch)
    told = [
        np.concatenate([np.frombuffer(p, np.uint8).reshape(p.height, p.line_size)[:, :320] for p in picture.planes])
        for picture in nvdec.pictures(plate, nvdec.CPU)
    ]
    assert pts == sorted(pts)
    np.testing.assert_array_equal(np.concatenate(got), np.stack(told))


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

    from farm.faces.cuda.lane import BatchPool, lane

    pool = BatchPool(card, surface(320, 192), 16, 4)
    free = []
    for _ in range(CHUNKS):
        pool.start()
        for batch in lane(plate, nvdec.NVDEC, pool):
            batch.ready.synchronize()
            pool.give_back(batch)
        free.append(cupy.cuda.runtime.memGetInfo()[0] >> 20)
    assert free[10] - free[-1] <= GROWTH_MIB
