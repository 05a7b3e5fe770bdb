"""A plan's progress counts the frames that were found; how many are stored is said in words beside that number."""

from __future__ import annotations

import pytest

from farm.errors import InterruptedTaskError
from farm.jobs.wire import HeartbeatAnswer
from farm.worker.heartbeat import Beat, Heartbeat
from farm.worker.tasks.plan import PlanProgress


class _Heard(Heartbeat):
    """Keeps what is said instead of sending it; stops at `last`."""

    def __init__(self, last: int = 1 << 30) -> None:
        def nobody(_: Beat) -> HeartbeatAnswer:
            raise AssertionError("nothing is sent")

        super().__init__(nobody, 1.0)
        self.said: list[tuple[int, str]] = []
        self._most = last

    def progress(self, done: int, note: str) -> None:
        self.said.append((done, note))

    def check(self) -> None:
        if len(self.said) >= self._most:
            raise InterruptedTaskError("The job is cancelled.")


def test_the_number_is_always_that_of_the_frames_found() -> None:
    heard = _Heard()
    progress = PlanProgress(heard)

    progress.found(400)
    progress.stored(240)
    progress.found(401)
    progress.coded(17)

    assert [done for done, _ in heard.said] == [400, 400, 401, 401]
    assert [note for _, note in heard.said] == [
        "finding frames",
        "cutting segments, 240 frames stored",
        "cutting segments, 240 frames stored",
        "coding frame 17 anew",
    ]


def test_each_call_obeys_an_order_to_stop() -> None:
    for call in (PlanProgress.found, PlanProgress.coded, PlanProgress.stored):
        with pytest.raises(InterruptedTaskError):
            call(PlanProgress(_Heard(last=1)), 1)
