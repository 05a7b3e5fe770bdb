"""One slot's line on the card: lanes decode, one stage looks, one swaps; bounded queues between them.

Each stage has its thread and its stream. A batch is handed on when the next stage may start on it, not when the card is
done with it: device events say that.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Protocol, TypeVar

from farm.faces.ahead import ahead as in_order
from farm.worker.stages import ahead

T = TypeVar("T")

DEPTH = 2


class Batch(Protocol):
    """What the line knows of a batch of frames; `farm.faces.cuda.lane.FrameBatch` is one."""

    done: Any

    def __len__(self) -> int: ...


@dataclass
class StageTimes:
    """Seconds that each stage was busy (not waiting for a neighbour), and frames done."""

    busy: dict[str, float] = field(default_factory=dict)
    frames: int = 0

    def add(self, stage: str, seconds: float) -> None:
        """Seconds add up over threads: a stage with two of them may be busy for two seconds in one."""
        self.busy[stage] = self.busy.get(stage, 0.0) + seconds

    def rates(self) -> dict[str, float]:
        """Frames a second that each stage alone would reach."""
        return {stage: self.frames / seconds for stage, seconds in self.busy.items() if seconds > 0}


def run_line(
    lanes: Sequence[Iterable[T]],
    looks: Sequence[Callable[[T], None]],
    swap: Callable[[T], None],
    finished: Callable[[T], None],
    times: StageTimes,
    *,
    depth: int = DEPTH,
) -> Generator[T, None, None]:
    """Batches of all lanes, looked at, swapped and finished on the card; each lane's in its own order.

    looks, swap: give work to their stream, in threads of their own. Looking waits for the card several times a batch;
    with several `looks` one works while another waits. finished: waits until the card is done with a batch;
    it is called one batch late, so that the card always has the next one at hand.
    """

    def looked() -> Iterator[T]:
        free: queue.SimpleQueue[Callable[[T], None]] = queue.SimpleQueue()
        for look in looks:
            free.put(look)

        def one(batch: T) -> T:
            look = free.get()
            try:
                with _Timed(times, "look"):
                    look(batch)
            finally:
                free.put(look)
            return batch

        with ThreadPoolExecutor(len(looks), thread_name_prefix="look") as pool:
            yield from in_order(pool, one, gathered(lanes, depth), len(looks) + 1)

    def swapped() -> Iterator[T]:
        before: T | None = None
        for batch in ahead(looked(), depth):
            with _Timed(times, "swap"):
                swap(batch)
            if before is not None:
                finished(before)
                yield before
            before = batch
        if before is not None:
            finished(before)
            yield before

    for batch in ahead(swapped(), depth):
        times.frames += len(batch)  # type: ignore[arg-type]
        yield batch


def gathered(lanes: Sequence[Iterable[T]], size: int) -> Iterator[T]:
    """Items of all lanes as they come, each lane in a thread of its own, at most `size` waiting."""
    if len(lanes) == 1:
        yield from ahead(lanes[0], size)
        return
    handed: queue.Queue[tuple[bool, Any]] = queue.Queue(size)
    stopped = threading.Event()
    threads = [threading.Thread(target=_feed, args=(lane, handed, stopped), daemon=True) for lane in lanes]
    for thread in threads:
        thread.start()
    try:
        going = len(threads)
        while going:
            alive, item = handed.get()
            if alive:
                yield item
                continue
            going -= 1
            if item is not None:
                raise item
    finally:
        stopped.set()
        for thread in threads:
            thread.join()


def _feed(lane: Iterable[Any], handed: queue.Queue[tuple[bool, Any]], stopped: threading.Event) -> None:
    """Hand on (True, item) for each item, then (False, error or None)."""
    error: BaseException | None = None
    try:
        for item in lane:
            if not _put(handed, (True, item), stopped):
                return
    except BaseException as caught:
        error = caught
    _put(handed, (False, error), stopped)


def _put(handed: queue.Queue[tuple[bool, Any]], item: tuple[bool, Any], stopped: threading.Event) -> bool:
    while not stopped.is_set():
        try:
            handed.put(item, timeout=0.1)
        except queue.Full:
            continue
        return True
    return False


class _Timed:
    """Adds the time of its block to a stage."""

    def __init__(self, times: StageTimes, stage: str) -> None:
        self._times, self._stage = times, stage

    def __enter__(self) -> None:
        self._start = perf_counter()

    def __exit__(self, *_: object) -> None:
        self._times.add(self._stage, perf_counter() - self._start)
