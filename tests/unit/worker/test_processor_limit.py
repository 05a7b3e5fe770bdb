import pytest

from farm.db.enums import TaskKind
from farm.errors import ErrorClass
from farm.worker.processor_limit import ProcessorLimit


class Spent:
    """Processor time, in seconds."""

    def __init__(self) -> None:
        self.seconds = 5.0

    def __call__(self) -> float:
        return self.seconds


@pytest.mark.parametrize(
    ("kind", "error_class"), [(TaskKind.PLAN, ErrorClass.INPUT), (TaskKind.RENDER, ErrorClass.UNKNOWN)]
)
def test_time_without_progress_ends_the_attempt(kind: TaskKind, error_class: ErrorClass) -> None:
    spent = Spent()
    limit = ProcessorLimit(kind, "job j", seconds=100, clock=spent)
    for done in range(5):  # far more than the limit in all
        spent.seconds += 90
        assert limit.overrun(done, "") is None
    spent.seconds += 100
    assert limit.overrun(4, "") is None
    spent.seconds += 1
    error = limit.overrun(4, "")
    assert error is not None
    assert error.error_class is error_class
    assert "After frame 4 it took 101 s of processor time" in str(error)


def test_a_new_note_is_progress_too() -> None:
    spent = Spent()
    limit = ProcessorLimit(TaskKind.RENDER, "job j", seconds=100, clock=spent)
    for note in ("opening", "running up", "rendering"):
        spent.seconds += 90
        assert limit.overrun(0, note) is None


def test_what_decodes_no_plate_is_not_limited() -> None:
    spent = Spent()
    limit = ProcessorLimit(TaskKind.MERGE, "job j", seconds=100, clock=spent)
    limit.overrun(0, "")
    spent.seconds += 10_000
    assert limit.overrun(0, "") is None
