"""The files that a person names: checked before anything is started, written whole or not at all."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from farm.errors import DiskFullError, InputError, is_disk_full


def check_input(path: Path, what: str) -> Path:
    """The path of a readable file that is not empty; InputError says what is wrong with it."""
    try:
        with path.open("rb") as source:
            empty = not source.read(1)
    except FileNotFoundError:
        raise InputError(f"The {what} does not exist.", where=str(path), do="Check the path.") from None
    except IsADirectoryError:
        raise InputError(f"The {what} is a folder.", where=str(path), do="Give a file.") from None
    except OSError as error:
        raise InputError(
            f"The {what} cannot be read: {error.strerror}.", where=str(path), do="Check its permissions."
        ) from error
    if empty:
        raise InputError(f"The {what} is an empty file.", where=str(path), do="Copy it again, or give another one.")
    return path


def sha256_of(path: Path) -> str:
    with path.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


def check_output(out: Path, inputs: tuple[Path, ...]) -> None:
    """InputError unless `out` may be written and is none of the files that are read."""
    if out.is_dir():
        raise InputError("The output is a folder.", where=str(out), do="Give the name of a file.")
    if out.exists() and not out.is_file():
        raise InputError("The output is not an ordinary file.", where=str(out), do="Give the name of a file.")
    for path in inputs:
        if out.exists() and path.exists() and out.samefile(path):
            raise InputError(
                "The output would replace a file that is read.", where=str(out), do="Give another name (-o)."
            )


@contextmanager
def replacing(out: Path) -> Iterator[BinaryIO]:
    """A new file beside `out` that takes its place when the block ends well, and is gone when it does not.

    It is made at once, so that a folder that cannot be written is known before anything is rendered.
    """
    fresh = out.parent / f".{out.name[:200]}.{os.getpid()}.part"
    try:
        target = fresh.open("xb")
    except OSError as error:
        raise _cannot_write(out, error) from error
    try:
        with target:
            yield target
            target.flush()
            os.fsync(target.fileno())
        fresh.replace(out)
    except OSError as error:
        if is_disk_full(error):
            raise _cannot_write(out, error) from error
        raise
    finally:
        with suppress(FileNotFoundError):
            fresh.unlink()


def _cannot_write(out: Path, error: OSError) -> InputError | DiskFullError:
    if is_disk_full(error):
        return DiskFullError("The disk is full.", where=str(out), do="Free some space, then try again.")
    return InputError(
        f"The output cannot be written: {error.strerror}.", where=str(out), do="Choose a folder that you may write in."
    )
