"""Work that is hurried along beside the requests that ask for it."""

from __future__ import annotations

import threading

from farm.wakeups import Hurry


def test_calls_that_come_while_it_works_become_one() -> None:
    begun, go = threading.Semaphore(0), threading.Semaphore(0)
    rounds = 0

    def work() -> None:
        nonlocal rounds
        rounds += 1
        begun.release()
        go.acquire()

    hurry = Hurry(work)
    hurry()
    assert begun.acquire(timeout=10)
    for _ in range(100):
        hurry()
    go.release()
    assert begun.acquire(timeout=10)
    go.release()
    assert not begun.acquire(timeout=0.1)
    assert rounds == 2


def test_what_fails_is_tried_again_with_the_next_call() -> None:
    tried = threading.Semaphore(0)

    def work() -> None:
        tried.release()
        raise ConnectionError("no broker")

    hurry = Hurry(work)
    for _ in range(2):
        hurry()
        assert tried.acquire(timeout=10)
