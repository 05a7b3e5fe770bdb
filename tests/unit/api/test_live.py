from farm.api.live import BATCH, HEARTBEAT_SECONDS, Closing, stream
from farm.api.schemas import EventOut
from tests.unit.api.fakes import NOW


def event(number: int) -> EventOut:
    return EventOut(id=number, at=NOW, kind="job.state", after="running")


class Script:
    """Reads that were written down: what each poll finds, and whether the job is final then."""

    def __init__(self, *reads: tuple[list[int], bool]) -> None:
        self._reads = list(reads)
        self.asked: list[int] = []

    def __call__(self, after: int) -> tuple[list[EventOut], bool]:
        self.asked.append(after)
        ids, final = self._reads.pop(0)
        return [event(number) for number in ids], final


def test_events_are_sent_once_with_their_ids_and_the_stream_ends_with_the_job() -> None:
    script = Script(([1, 2], False), ([], False), ([3], True))
    text = "".join(stream(script, 0, sleep=lambda seconds: None, clock=lambda: 0.0))
    assert [line for line in text.splitlines() if line.startswith("id: ")] == ["id: 1", "id: 2", "id: 3", "id: 3"]
    assert text.endswith("event: end\ndata: {}\n\n")
    assert script.asked == [0, 2, 2]


def test_a_long_history_is_read_without_pauses() -> None:
    pauses: list[float] = []
    first = list(range(1, BATCH + 1))
    script = Script((first, True), ([BATCH + 1], True))
    text = "".join(stream(script, 0, sleep=pauses.append, clock=lambda: 0.0))
    assert text.count("event: change") == BATCH + 1
    assert pauses == []


def test_a_quiet_stream_shows_that_it_lives() -> None:
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += HEARTBEAT_SECONDS

    script = Script(([], False), ([], False), ([], True))
    text = "".join(stream(script, 7, sleep=sleep, clock=lambda: now[0]))
    assert text.count(": still here") == 1
    assert "id: 7\nevent: end" in text


def test_what_was_taken_is_given_back_once_however_the_stream_ends() -> None:
    given: list[str] = []
    unused = Closing(iter(["a"]), lambda: given.append("unused"))
    unused.close()
    unused.close()
    used = Closing(iter(["a"]), lambda: given.append("used"))
    assert list(used) == ["a"]
    used.close()
    assert given == ["unused", "used"]
