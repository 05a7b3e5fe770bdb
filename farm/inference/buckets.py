"""Any number of samples through networks of a few fixed batch sizes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from farm.inference.bound import Allocate, BoundNetwork

P = ParamSpec("P")
R = TypeVar("R")

_RECORDING_RUNS = 2
"""After the run that settles memory, one is recorded as a graph, and one replays it."""


def plan_buckets(count: int, sizes: Sequence[int]) -> list[tuple[int, int]]:
    """(start, size) of the runs for `count` samples: full largest batches, then the smallest that holds the rest."""
    ordered = sorted(sizes)
    largest = ordered[-1]
    runs = []
    start = 0
    while count - start > 0:
        rest = count - start
        size = largest if rest >= largest else next(size for size in ordered if size >= rest)
        runs.append((start, size))
        start += size
    return runs


class Home:
    """The one thread in which networks are run that belong together; a stage of a line works there as a whole."""

    def __init__(self, name: str = "buckets") -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._thread = self._pool.submit(threading.get_ident).result()

    def submit(self, work: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Work for later; what is submitted first is done first."""
        return self._pool.submit(work, *args, **kwargs)

    def call(self, work: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Work for now: at once where this is the home's own thread, else when what waits there is done."""
        if threading.get_ident() == self._thread:
            return work(*args, **kwargs)
        return self._pool.submit(work, *args, **kwargs).result()

    def rest(self) -> None:
        """Wait until all that was submitted is done."""
        self.call(lambda: None)

    def close(self) -> None:
        """End the thread when what was submitted is done."""
        self._pool.shutdown()


class Buckets:
    """One network at several batch sizes over common arrays: fill `arrays[input][:n]`, `run(n)`, read the outputs.

    All runs are made by one thread, `home`: ONNX Runtime keeps recorded graphs and memory by thread. `samples` and
    `slots` count what was asked for and what was computed; their ratio is the fill. warm: whether it can be run at
    once; else `ready` has to be called first, for all that are opened together. home: shared with others, and closed
    by whoever made it; None makes one of its own.
    """

    def __init__(
        self,
        networks: Sequence[BoundNetwork],
        capacity: int,
        allocate: Allocate,
        *,
        warm: bool = True,
        home: Home | None = None,
    ) -> None:
        self._networks = {network.batch: network for network in networks}
        self.sizes = sorted(self._networks)
        largest = self.sizes[-1]
        self.capacity = -(-capacity // largest) * largest
        ports = {port.name: port for network in networks for port in (*network.inputs, *network.outputs)}
        self.arrays: dict[str, Any] = {
            name: allocate((self.capacity, *port.shape[1:]), port.dtype) for name, port in ports.items()
        }
        self.samples = self.slots = 0
        self._parts: dict[tuple[int, int], dict[str, Any]] = {}
        self._owns_home = home is None
        self._home = home if home is not None else Home()
        if warm:
            ready([self])

    @property
    def inputs(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the inputs by name, in the graph's order, of one of the sizes."""
        return {port.name: port.shape for port in self._networks[self.sizes[-1]].inputs}

    @property
    def outputs(self) -> dict[str, tuple[int, ...]]:
        return {port.name: port.shape for port in self._networks[self.sizes[-1]].outputs}

    @property
    def provider(self) -> str:
        return self._networks[self.sizes[-1]].provider

    @property
    def fill(self) -> float:
        return self.samples / self.slots if self.slots else 1.0

    def run(self, count: int) -> None:
        """Run the first `count` samples; at most `capacity`."""
        runs = plan_buckets(count, self.sizes)
        self._home.call(self._run_all, runs)
        self.slots += sum(size for _, size in runs)
        self.samples += count

    def close(self) -> None:
        """Let go of sessions and arrays, and end the thread where it is this network's alone."""
        if self._owns_home:
            self._home.close()
        self._networks.clear()
        self._parts.clear()
        self.arrays.clear()

    def _run_all(self, runs: list[tuple[int, int]]) -> None:
        for start, size in runs:
            self._run(start, size, start)

    def _run(self, start: int, size: int, graph: int | None) -> None:
        part = self._parts.get((start, size))
        if part is None:
            part = {name: array[start : start + size] for name, array in self.arrays.items()}
            self._parts[start, size] = part
        self._networks[size].run(part, graph=graph)

    def settle(self) -> None:
        """Every run that `run` can ask for, once and without a graph: algorithms are chosen, memory is taken."""
        self._home.call(self._settle)

    def record(self) -> None:
        """Graphs of those runs, where the networks keep any. Nothing else may use the card meanwhile."""
        self._home.call(self._record)

    def _settle(self) -> None:
        for start in range(0, self.capacity, self.sizes[-1]):
            for size in self.sizes:
                self._run(start, size, None)

    def _record(self) -> None:
        for start in range(0, self.capacity, self.sizes[-1]):
            for size, network in sorted(self._networks.items()):
                for _ in range(_RECORDING_RUNS if network.graphs else 0):
                    self._run(start, size, start)


def ready(opened: Sequence[Buckets]) -> None:
    """Settle all of them side by side, which keeps processors busy for seconds, then record one after the other."""
    with ThreadPoolExecutor(len(opened), thread_name_prefix="settle") as pool:
        for _ in pool.map(Buckets.settle, opened):
            pass
    for buckets in opened:
        buckets.record()
