"""Files written whole or not at all, hashed on the way; errors of the disk in words."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Protocol

from farm.errors import DamagedError, DiskFullError, InfrastructureError, NotFoundError, is_disk_full

BLOCK = 1 << 20


class Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


def copy_hashed(source: Readable, target: BinaryIO) -> tuple[int, str]:
    """Copy to the end; returns (bytes, sha256)."""
    digest, size = hashlib.sha256(), 0
    while block := source.read(BLOCK):
        digest.update(block)
        target.write(block)
        size += len(block)
    return size, digest.hexdigest()


def file_sha256(path: Path) -> str:
    with path.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


def sync_folder(folder: Path) -> None:
    """Make the folder's entries survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def replace_file(path: Path, *, durable: bool = False, beside: Path | None = None) -> Iterator[BinaryIO]:
    """A file to write that takes the place of `path` when the block ends well, and vanishes when it does not.

    Parameters
    ----------
    durable: wait until the bytes and the name are on the disk.
    beside: folder of the same file system where the unfinished file lies; by default that of `path`.
    """
    descriptor, name = tempfile.mkstemp(dir=beside or path.parent, prefix=".part-")
    try:
        with os.fdopen(descriptor, "wb") as out:
            yield out
            out.flush()
            if durable:
                os.fsync(out.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    if durable:
        sync_folder(path.parent)


@contextmanager
def disk_errors(folder: Path, doing: str) -> Iterator[None]:
    """Turn OSErrors of the block into InfrastructureErrors that say what the disk lacks."""
    try:
        yield
    except OSError as error:
        raise disk_error(error, folder, doing) from error


def disk_error(error: OSError, folder: Path, doing: str) -> InfrastructureError:
    if is_disk_full(error):
        free = 0
        with suppress(OSError):
            free = shutil.disk_usage(folder).free
        return DiskFullError(
            f"The disk is full while {doing}: {free >> 20} MiB are free.",
            where=str(folder),
            do="Free some space, or move the folder to a larger disk; the work goes on by itself.",
        )
    return InfrastructureError(
        f"The disk failed while {doing}: {error.strerror or error}.",
        where=str(folder),
        do="Check the folder's permissions and the disk's health.",
    )


def missing(key: str) -> NotFoundError:
    return NotFoundError("The object does not exist.", where=key, do="It was never stored, or retention removed it.")


def damaged(key: str) -> DamagedError:
    return DamagedError(
        "The object's bytes do not have the sha256 they were stored with.",
        where=key,
        do="It is fetched again; if that fails too, the stored copy is damaged and its task must be requeued.",
    )
