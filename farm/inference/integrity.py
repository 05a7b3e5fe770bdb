"""Checksums of files: nothing is read as a model whose sha256 is not the catalogue's."""

from __future__ import annotations

import hashlib
from pathlib import Path

from farm.errors import InputError


def sha256_of(path: Path) -> str:
    """Lower-case hex sha256 of the file's content, read in pieces."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def require_sha256(path: Path, expected: str, *, name: str) -> None:
    """Raise InputError unless the file's sha256 is `expected`."""
    found = sha256_of(path)
    if found != expected:
        raise InputError(
            f"The weights have sha256 {found}, the catalogue says {expected}; they are not used.",
            where=f"model {name}",
            do=f"Delete the file and run: farm models pull {name}",
        )
