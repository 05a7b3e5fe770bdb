import threading
from collections.abc import Iterator

import pytest

from farm.faces.stages import Behind, ahead


def test_items_come_in_order() -> None:
    assert list(ahead(range(100), 3)) == list(range(100))


def test_the_producer_is_never_more_than_its_queue_ahead() -> None:
    made = 0

    def produce() -> Iterator[int]:
        nonlocal made
        while made < 50:
            made += 1
            yield made

    for item in ahead(produce(), 2):
        assert made <= item + 4  # two queued, one in hand, one being handed over


def test_an_error_comes_after_the_items_before_it() -> None:
    def produce() -> Iterator[int]:
        yield 1
        raise ValueError("broken")

    seen = []
    with pytest.raises(ValueError, match="broken"):
        seen.extend(ahead(produce(), 4))
    assert seen == [1]


def test_leaving_early_closes_the_producer() -> None:
    closed = threading.Event()

    def produce() -> Iterator[int]:
        try:
            while True:
                yield 1
        finally:
            closed.set()

    stream = ahead(produce(), 1)
    next(stream)
    stream.close()  # type: ignore[attr-defined]
    assert closed.is_set()


def test_a_consumer_behind_gets_everything_before_the_block_ends() -> None:
    seen: list[int] = []
    with Behind(seen.append, 2) as stage:
        for item in range(20):
            stage.put(item)
    assert seen == list(range(20))


def test_a_consumers_error_reaches_the_producer() -> None:
    def consume(item: int) -> None:
        raise OSError("disk full")

    def feed() -> None:
        with Behind(consume, 1) as stage:
            for item in range(1000):
                stage.put(item)

    with pytest.raises(OSError, match="disk full"):
        feed()


def test_the_blocks_own_error_wins() -> None:
    def feed() -> None:
        with Behind(lambda item: None, 1) as stage:
            stage.put(1)
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        feed()
