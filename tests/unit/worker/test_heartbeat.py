import threading
from dataclasses import dataclass

import pytest

from farm.errors import FarmError, InputError, InterruptedTaskError, StaleLeaseError
from farm.worker.heartbeat import EXIT_DISOBEYED, Beat, Heartbeat


@dataclass
class Said:
    alive: bool
    reason: str = ""
    next_seconds: float = 0.0


def wait_for_stop(heartbeat: Heartbeat) -> None:
    """Run checks until one raises, as a render loop does."""
    tick = threading.Event()
    while not tick.wait(0.001):
        heartbeat.check()


def test_progress_goes_out_with_the_beat() -> None:
    beats: list[Beat] = []
    heard = threading.Event()

    def beat(report: Beat) -> Said:
        beats.append(report)
        heard.set()
        return Said(alive=True)

    with Heartbeat(beat, 0.001) as heartbeat:
        heartbeat.progress(7, "rendering")
        heard.clear()
        assert heard.wait(5)
        heartbeat.check()
    assert (beats[-1].done, beats[-1].note) == (7, "rendering")


def test_a_call_is_heard_long_before_the_next_beat() -> None:
    called = threading.Event()

    def beat(report: Beat) -> Said:
        return Said(alive=False, reason="cancelled")

    with Heartbeat(beat, 3600, called=called.is_set) as heartbeat:
        called.set()
        with pytest.raises(InterruptedTaskError):
            wait_for_stop(heartbeat)


def test_the_answers_say_how_often_to_beat() -> None:
    beats = threading.Semaphore(0)

    def beat(report: Beat) -> Said:
        beats.release()
        return Said(alive=True, next_seconds=3600)

    with Heartbeat(beat, 0.001):
        assert beats.acquire(timeout=5)
        assert not beats.acquire(timeout=0.1)


def test_the_rate_is_of_the_frames_since_the_last_beat() -> None:
    now = 0.0
    beats: list[Beat] = []
    heard = threading.Event()

    def beat(report: Beat) -> Said:
        nonlocal now
        now += 2.0
        beats.append(report)
        heartbeat.progress(report.done + 10, "")
        if len(beats) == 3:
            heard.set()
        return Said(alive=True)

    heartbeat = Heartbeat(beat, 0.001, clock=lambda: now)
    with heartbeat:
        assert heard.wait(5)
    assert [(b.done, b.rate) for b in beats[:3]] == [(0, None), (10, 5.0), (20, 5.0)]


def test_a_superseded_attempt_drops_its_work() -> None:
    with (
        pytest.raises(StaleLeaseError),
        Heartbeat(lambda report: Said(alive=False, reason="superseded"), 0.001) as heartbeat,
    ):
        wait_for_stop(heartbeat)


def test_a_cancelled_attempt_is_handed_back() -> None:
    with (
        pytest.raises(InterruptedTaskError, match="cancelled by a person"),
        Heartbeat(lambda report: Said(alive=False, reason="cancelled by a person"), 0.001) as heartbeat,
    ):
        wait_for_stop(heartbeat)


def test_a_database_that_is_away_ends_nothing() -> None:
    calls = 0
    enough = threading.Event()

    def beat(report: Beat) -> Said:
        nonlocal calls
        calls += 1
        if calls > 3:
            enough.set()
            return Said(alive=True)
        raise ConnectionError("gone")

    with Heartbeat(beat, 0.001) as heartbeat:
        assert enough.wait(5)
        heartbeat.check()


def test_a_draining_worker_hands_the_task_back() -> None:
    with (
        pytest.raises(InterruptedTaskError),
        Heartbeat(lambda report: Said(alive=True), 0.001, draining=lambda: True) as heartbeat,
    ):
        wait_for_stop(heartbeat)


def test_an_attempt_that_does_not_stop_ends_its_process() -> None:
    codes: list[int] = []
    ended = threading.Event()

    def end(code: int) -> None:
        codes.append(code)
        ended.set()

    with Heartbeat(lambda report: Said(alive=False), 0.001, grace=0.001, exit_process=end):
        assert ended.wait(5)
    assert codes == [EXIT_DISOBEYED]


def test_an_attempt_that_costs_too_much_stops_with_the_reason() -> None:
    def overrun(done: int, note: str) -> FarmError | None:
        return InputError(f"no further than {done}{note}")

    with (
        pytest.raises(InputError, match="no further than 0"),
        Heartbeat(lambda report: Said(alive=True), 0.001, overrun=overrun) as heartbeat,
    ):
        wait_for_stop(heartbeat)


def test_a_process_that_is_lost_in_native_code_says_why_before_it_ends() -> None:
    told: list[object] = []
    ended = threading.Event()
    error = InputError("The decoder spins.")

    def end(code: int) -> None:
        told.append(code)
        ended.set()

    with Heartbeat(
        lambda report: Said(alive=True),
        0.001,
        overrun=lambda done, note: error,
        give_up=told.append,
        grace=0.5,
        exit_process=end,
    ):
        assert ended.wait(5)
    assert told == [error, EXIT_DISOBEYED]


def test_a_process_that_cannot_say_why_it_ends_ends_all_the_same() -> None:
    ended, never = threading.Event(), threading.Event()
    with Heartbeat(
        lambda report: Said(alive=True),
        0.001,
        overrun=lambda done, note: InputError("The decoder spins."),
        give_up=lambda error: never.wait(60) and None,
        grace=0.001,
        exit_process=lambda code: ended.set(),
    ):
        assert ended.wait(5)
    never.set()
