"""Exit codes and the last line."""

from __future__ import annotations

from enum import IntEnum

import click

from farm.errors import (
    ConflictError,
    DiskFullError,
    ErrorClass,
    FarmError,
    InputError,
    PolicyError,
    RecipeError,
    is_disk_full,
)


class Exit(IntEnum):
    DONE = 0
    FAILED = 1
    BAD_INPUT = 2
    REFUSED = 3


_BY_CLASS = {
    ErrorClass.INPUT: Exit.BAD_INPUT,
    ErrorClass.RECIPE: Exit.BAD_INPUT,
    ErrorClass.CONFLICT: Exit.BAD_INPUT,
    ErrorClass.POLICY: Exit.REFUSED,
}


class JobFailedError(FarmError):
    """The job ended without its deliverables."""

    def __init__(self, what: str, *, where: str = "", do: str = "", code: Exit = Exit.FAILED) -> None:
        super().__init__(what, where=where, do=do)
        self.code = code


def exit_code(error: BaseException) -> Exit:
    """How the command ends on an error."""
    if isinstance(error, JobFailedError):
        return error.code
    if isinstance(error, PolicyError):
        return Exit.REFUSED
    if isinstance(error, InputError | RecipeError | ConflictError | DiskFullError | click.UsageError):
        return Exit.BAD_INPUT
    if is_disk_full(error):
        return Exit.BAD_INPUT
    return Exit.FAILED


def code_of_class(error_class: str | None) -> Exit:
    """How a command ends that waited for a job which failed with this class of error."""
    try:
        return _BY_CLASS.get(ErrorClass(error_class or ""), Exit.FAILED)
    except ValueError:
        return Exit.FAILED


def last_line(error: BaseException) -> str:
    """The reason and what to do, in one line."""
    return " ".join(f"farm: {_words(error)}".split())


def _words(error: BaseException) -> str:
    if isinstance(error, FarmError):
        return str(error)
    if isinstance(error, click.UsageError):
        command = error.ctx.command_path if error.ctx else "farm"
        return f"{error.format_message()} See: {command} --help"
    if isinstance(error, click.ClickException):
        return error.format_message()
    if isinstance(error, KeyboardInterrupt | click.Abort):
        return "Interrupted: what was started is stopped, nothing half-made is left. Start it again when you like."
    if isinstance(error, OSError) and is_disk_full(error):
        return f"{error.filename or 'disk'}: The disk is full. Free some space, then try again."
    if isinstance(error, OSError):
        return f"{error.filename or 'files'}: {error.strerror or error}. Check the path and its permissions."
    return f"The farm made a mistake: {type(error).__name__}: {error}. Run it with --debug and report what it says."
