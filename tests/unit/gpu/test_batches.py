"""Buckets and bound networks on the processor."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from farm.errors import InfrastructureError, OutOfMemoryError, RecipeError
from farm.inference import providers as ep
from farm.inference.bound import PoisonedContextError, Port, device_error, is_poisoned, open_bound
from farm.inference.buckets import Buckets, Home, plan_buckets, ready
from farm.inference.catalogue import Catalogue
from farm.inference.half import half_bytes
from farm.inference.standins import stand_in
from farm.resources import resource


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


def test_what_belongs_together_runs_in_one_thread_and_at_once_where_that_is_the_caller_s() -> None:
    home = Home("a-test")
    spec = Catalogue.load(resource("models")).spec("inswapper-128")
    buckets = Buckets([open_bound(stand_in(spec), 2, requested=[ep.CPU])], 2, np.zeros, home=home)
    where = home.call(threading.get_ident)
    assert where != threading.get_ident()
    assert home.call(home.call, threading.get_ident) == where
    done = home.submit(buckets.run, 2)
    home.rest()
    assert done.done()
    assert buckets.samples == 2
    buckets.close()
    assert home.call(threading.get_ident) == where
    home.close()


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
