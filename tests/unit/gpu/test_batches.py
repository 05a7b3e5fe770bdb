"""Buckets, bound networks on the processor, and the line's order and ends."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from farm.errors import InfrastructureError, OutOfMemoryError, RecipeError
from farm.inference import providers as ep
from farm.inference.bound import PoisonedContextError, Port, device_error, is_poisoned, open_bound
from farm.inference.buckets import Buckets, plan_buckets, ready
from farm.inference.catalogue import Catalogue
from farm.inference.half import half_bytes
from farm.inference.standins import stand_in
from farm.resources import resource
from farm.worker.gpu_line import StageTimes, gathered, run_line


@pytest.mark.parametrize(
    ("count", "told"),
    [
        (0, []), (1, [(0, 4)]), (4, [(0, 4)]), (5, [(0, 32)]), (32, [(0, 32)]), (33, [(0, 32), (32, 4)]),
        (70, [(0, 32), (32, 32), (64, 32)]),
    ],
)  # fmt: skip
def test_buckets(count: int, told: list[tuple[int, int]]) -> None:
    assert plan_buckets(count, (32, 4)) == told


def test_any_number_of_samples_gives_what_one_by_one_gives() -> None:
    spec = Catalogue.load(resource("models")).spec("inswapper-128")
    graph = stand_in(spec)
    buckets = Buckets([open_bound(graph, size, requested=[ep.CPU]) for size in (1, 4)], 6, np.zeros)
    assert buckets.capacity == 8
    random = np.random.default_rng(1)
    targets = random.random((6, 3, 128, 128)).astype(np.float32)
    sources = random.random((6, 512)).astype(np.float32)
    buckets.arrays["target"][:6], buckets.arrays["source"][:6] = targets, sources
    buckets.run(5)
    made = buckets.arrays["output"]
    np.testing.assert_allclose(made[:5], targets[:5] / 2 + sources[:5, :3, None, None] / 4, rtol=1e-6)
    assert buckets.fill == pytest.approx(5 / 5)
    buckets.run(2)
    assert buckets.fill == pytest.approx(7 / 9)
    buckets.close()


class _Recorded:
    """A network that keeps graphs and notes under which number it was run; without one it waits for its fellow."""

    provider, graphs, batch, inputs = "card", True, 4, ()

    def __init__(self, name: str, fellows: threading.Barrier, log: list[tuple[str, int | None]]) -> None:
        self._name, self._fellows, self._log = name, fellows, log
        self.outputs = [Port("out", (4, 1), np.float32)]

    def run(self, arrays: dict[str, Any], graph: int | None = 0) -> None:
        if graph is None:
            self._fellows.wait(5)
        self._log.append((self._name, graph))


def test_networks_settle_side_by_side_without_graphs_and_record_one_after_the_other() -> None:
    log: list[tuple[str, int | None]] = []
    fellows = threading.Barrier(2)
    networks: list[Any] = [_Recorded(name, fellows, log) for name in "ab"]
    opened = [Buckets([network], 8, np.zeros, warm=False) for network in networks]
    ready(opened)
    assert sorted(log[:4]) == [("a", None), ("a", None), ("b", None), ("b", None)]
    assert log[4:] == [(name, start) for name in "ab" for start in (0, 0, 4, 4)]
    for buckets in opened:
        buckets.close()


def test_providers_that_are_not_here_are_passed_over_and_named() -> None:
    spec = Catalogue.load(resource("models")).spec("inswapper-128")
    network = open_bound(stand_in(spec), 2, requested=[ep.TENSORRT, ep.CUDA, ep.CPU])
    assert network.provider == ep.CPU
    assert [skip.provider for skip in network.skipped] == [ep.TENSORRT, ep.CUDA]
    with pytest.raises(RecipeError, match="not in this build"):
        open_bound(stand_in(spec), 2, requested=[ep.CUDA])


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Failed to allocate memory for requested buffer", OutOfMemoryError),
        ("CUDA failure 700: an illegal memory access was encountered", PoisonedContextError),
        ("something else", InfrastructureError),
    ],
)
def test_errors_of_the_device_are_told_apart(text: str, kind: type[Exception]) -> None:
    assert type(device_error(RuntimeError(text), "model x")) is kind


def test_a_lost_context_is_seen_through_the_errors_that_it_caused() -> None:
    told = InfrastructureError("ONNX Runtime failed.")
    told.__cause__ = RuntimeError("CUDA failure 700: an illegal memory access was encountered")
    assert is_poisoned(told)
    assert is_poisoned(PoisonedContextError("lost"))
    assert not is_poisoned(OutOfMemoryError("full"))


def test_half_precision_finds_the_same_faces() -> None:
    path = Path(str(resource("models"))) / "weights" / "yunet_2023mar_fp32.onnx"
    picture = np.random.default_rng(2).integers(0, 256, (1, 3, 640, 640)).astype(np.float32)
    outputs = []
    for source in (path, half_bytes(path)):
        network = open_bound(source, 1, requested=[ep.CPU])
        arrays = network.buffers(np.zeros)
        arrays["input"][...] = picture
        network.run(arrays)
        outputs.append(arrays)
    for name in ("cls_8", "obj_16", "bbox_32"):
        np.testing.assert_allclose(outputs[1][name], outputs[0][name], atol=0.03)


def test_heads_in_single_precision_place_points_more_exactly_than_half_can_write() -> None:
    path = Path(str(resource("models"))) / "weights" / "face_landmarks_478_fp32.onnx"
    picture = np.random.default_rng(3).random((1, 256, 256, 3)).astype(np.float32)
    points = []
    for source in (path, half_bytes(path), half_bytes(path, heads=True)):
        network = open_bound(source, 1, requested=[ep.CPU])
        arrays = network.buffers(np.zeros)
        arrays["input_12"][...] = picture
        network.run(arrays)
        points.append(arrays["Identity"].astype(np.float64))
    half, heads = (np.abs(made - points[0]).mean() for made in points[1:])
    assert heads < half / 2
    assert not np.array_equal(points[2], points[2].astype(np.float16))


class _Batch:
    def __init__(self, lane: int, number: int) -> None:
        self.lane, self.number, self.seen = lane, number, []
        self.done: Any = None

    def __len__(self) -> int:
        return 2


def test_batches_pass_every_stage_in_their_lane_s_order() -> None:
    lanes = [[_Batch(lane, number) for number in range(5)] for lane in range(3)]
    times = StageTimes()
    out = list(
        run_line(
            lanes, [lambda b: b.seen.append("look")] * 2, lambda b: b.seen.append("swap"),
            lambda b: b.seen.append("finished"), times,
        )
    )  # fmt: skip
    assert len(out) == 15
    assert all(batch.seen == ["look", "swap", "finished"] for batch in out)
    for lane in range(3):
        assert [batch.number for batch in out if batch.lane == lane] == list(range(5))
    assert times.frames == 30
    assert set(times.rates()) == {"look", "swap"}


def test_an_error_in_a_lane_or_a_stage_reaches_the_consumer() -> None:
    def broken() -> Iterator[_Batch]:
        yield _Batch(0, 0)
        raise InfrastructureError("The lane broke.")

    with pytest.raises(InfrastructureError, match="lane broke"):
        list(gathered([broken(), iter([_Batch(1, 0)])], 1))

    def refuse(_: _Batch) -> None:
        raise OutOfMemoryError("full")

    with pytest.raises(OutOfMemoryError):
        list(run_line([[_Batch(0, 0)]], [lambda b: None], refuse, lambda b: None, StageTimes()))


def test_closing_early_ends_every_thread() -> None:
    before = threading.active_count()
    endless = [(_Batch(lane, number) for number in range(10_000)) for lane in range(2)]
    line = run_line(endless, [lambda b: None], lambda b: None, lambda b: None, StageTimes())
    next(line)
    line.close()
    assert threading.active_count() == before
