"""The error tree of the farm.

    FarmError
    ├── InputError            the plate, a picture or a request is not usable: fail now, say where
    │   ├── NotFoundError     the named thing does not exist
    │   └── PlanMismatchError the plate's packets promised other frames than its decoder gives: plan by decoding
    ├── PolicyError           consent, licence or a gate says no
    ├── RecipeError           the recipe or a model cannot do what is asked
    ├── ConflictError         the thing is not in a state that allows this (a second cancel, a used idempotency key)
    ├── StaleLeaseError       this attempt was superseded, cancelled or reaped: drop all its work
    ├── OutOfMemoryError      device or host memory ran out: shrink and try again, free of charge
    ├── InterruptedTaskError  the worker drains or was told to stop: hand the task back, free of charge
    └── InfrastructureError   database, store, broker or disk: back off and try again
        ├── DamagedError      the store gave other bytes than were put: the object has to be made again
        ├── LostResultError   an accepted chunk cannot be read any more: render it again
        └── DiskFullError     no room for what is asked: a person has to make some

Every message says what went wrong, where, and what to do about it.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable
from enum import StrEnum
from typing import TypeVar


class ErrorClass(StrEnum):
    """How the farm reacts to an error; stored with each failed attempt."""

    INPUT = "input"
    POLICY = "policy"
    RECIPE = "recipe"
    CONFLICT = "conflict"
    STALE_LEASE = "stale_lease"
    OUT_OF_MEMORY = "out_of_memory"
    INTERRUPTED = "interrupted"
    INFRASTRUCTURE = "infrastructure"
    UNKNOWN = "unknown"


class FarmError(Exception):
    """Base of all errors that the farm raises on purpose.

    Parameters
    ----------
    what: one sentence, what went wrong.
    where: the thing it happened to (a file, a field, a frame, a byte offset), or "".
    do: one sentence, what the reader can do about it, or "".
    """

    error_class = ErrorClass.UNKNOWN

    def __init__(self, what: str, *, where: str = "", do: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.do = do

    def __str__(self) -> str:
        head = f"{self.where}: {self.what}" if self.where else self.what
        return f"{head} {self.do}" if self.do else head


class InputError(FarmError):
    error_class = ErrorClass.INPUT


class NotFoundError(InputError):
    pass


class PlanMismatchError(InputError):
    """Decoding does not give the frames that the packets promised; a plan by full decode does."""


class PolicyError(FarmError):
    error_class = ErrorClass.POLICY


class RecipeError(FarmError):
    error_class = ErrorClass.RECIPE


class ConflictError(FarmError):
    error_class = ErrorClass.CONFLICT


class StaleLeaseError(FarmError):
    error_class = ErrorClass.STALE_LEASE


class OutOfMemoryError(FarmError):
    error_class = ErrorClass.OUT_OF_MEMORY


class InterruptedTaskError(FarmError):
    error_class = ErrorClass.INTERRUPTED


class InfrastructureError(FarmError):
    error_class = ErrorClass.INFRASTRUCTURE


class DamagedError(InfrastructureError):
    pass


class LostResultError(InfrastructureError):
    """The accepted result of the chunk at `position` is gone or damaged."""

    def __init__(self, what: str, *, position: int = 0, where: str = "", do: str = "") -> None:
        super().__init__(what, where=where, do=do)
        self.position = position


class DiskFullError(InfrastructureError):
    pass


E = TypeVar("E", bound=FarmError)


def unknown(kind: type[E], thing: str, name: str, choices: Iterable[str], *, where: str = "") -> E:
    """An error of `kind` for a `thing` called `name` that is none of `choices`; `where` is the thing if not given."""
    known = ", ".join(choices) or "(there is none)"
    return kind(f"There is no {thing} called {name!r}.", where=where or thing, do=f"Choose one of: {known}.")


def is_disk_full(error: BaseException) -> bool:
    """Whether the system refused to write because a disk or a quota is full."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def classify(error: BaseException) -> ErrorClass:
    """The class of any exception; foreign ones are UNKNOWN, but for memory and disk."""
    if isinstance(error, FarmError):
        return error.error_class
    if isinstance(error, MemoryError):
        return ErrorClass.OUT_OF_MEMORY
    if isinstance(error, OSError):
        return ErrorClass.INFRASTRUCTURE
    return ErrorClass.UNKNOWN
