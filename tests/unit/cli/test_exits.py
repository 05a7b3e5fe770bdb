import errno

import click
import pytest

from farm.cli.exits import Exit, JobFailedError, code_of_class, exit_code, last_line
from farm.errors import (
    ConflictError,
    DiskFullError,
    ErrorClass,
    InfrastructureError,
    InputError,
    NotFoundError,
    PolicyError,
    RecipeError,
)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InputError("x"), 2),
        (NotFoundError("x"), 2),
        (RecipeError("x"), 2),
        (ConflictError("x"), 2),
        (DiskFullError("x"), 2),
        (OSError(errno.ENOSPC, "No space left on device"), 2),
        (click.UsageError("x"), 2),
        (PolicyError("x"), 3),
        (InfrastructureError("x"), 1),
        (OSError(errno.EIO, "x"), 1),
        (KeyboardInterrupt(), 1),
        (RuntimeError("x"), 1),
        (JobFailedError("x"), 1),
        (JobFailedError("x", code=Exit.REFUSED), 3),
    ],
)
def test_exit_codes(error: BaseException, code: int) -> None:
    assert exit_code(error) == code


def test_a_failed_job_ends_the_command_by_the_class_of_its_error() -> None:
    assert {kind: code_of_class(kind) for kind in ErrorClass} == {
        ErrorClass.INPUT: 2,
        ErrorClass.POLICY: 3,
        ErrorClass.RECIPE: 2,
        ErrorClass.CONFLICT: 2,
        ErrorClass.STALE_LEASE: 1,
        ErrorClass.OUT_OF_MEMORY: 1,
        ErrorClass.INTERRUPTED: 1,
        ErrorClass.INFRASTRUCTURE: 1,
        ErrorClass.UNKNOWN: 1,
    }
    assert code_of_class(None) == code_of_class("a class of tomorrow") == 1


def test_the_last_line_is_one_line_with_reason_and_advice() -> None:
    line = last_line(InputError("The plate\nis broken.", where="a.mp4", do="Convert it."))
    assert line == "farm: a.mp4: The plate is broken. Convert it."


def test_a_mistake_is_told_from_bad_input() -> None:
    assert "ZeroDivisionError" in last_line(ZeroDivisionError("division by zero"))
