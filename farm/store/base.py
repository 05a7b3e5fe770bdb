"""What the farm needs of an object store.

Keys are made by `farm.store.keys`, never from names that people gave. A put is atomic: a reader sees the whole old
object, the whole new one, or none. Every implementation passes the same conformance suite.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import BinaryIO, Protocol


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """What is known of a stored object. `sha256` is the lower-case hex digest of the whole content."""

    key: str
    size: int
    sha256: str
    modified: datetime


class Store(Protocol):
    """Objects by key. Errors: NotFoundError, InfrastructureError (which may be tried again)."""

    def put_file(self, key: str, path: Path, *, content_type: str = "application/octet-stream") -> ObjectInfo:
        """Store a file, streamed, in parts where it is large; memory use does not grow with its size."""
        ...

    def put_bytes(self, key: str, data: bytes, *, content_type: str = "application/octet-stream") -> ObjectInfo: ...

    def get_file(self, key: str, path: Path) -> ObjectInfo:
        """Write the object to `path` atomically, checking its sha256; a mismatch raises InfrastructureError."""
        ...

    def get_bytes(self, key: str) -> bytes: ...

    def open(self, key: str, *, start: int = 0, end: int | None = None) -> BinaryIO:
        """A readable, non-seekable stream of bytes [start, end); the caller closes it."""
        ...

    def head(self, key: str) -> ObjectInfo | None: ...

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """Objects whose key starts with prefix, in key order. `sha256` may be "" where listing does not give it."""
        ...

    def delete(self, key: str) -> None:
        """Remove the object; removing what is not there is no error."""
        ...

    def delete_prefix(self, prefix: str) -> int: ...

    def signed_url(self, key: str, *, expires: timedelta, filename: str | None = None) -> str:
        """A URL from which anyone may GET the object until it expires."""
        ...

    def abort_stale_uploads(self, *, older_than: timedelta) -> int:
        """Drop unfinished uploads; returns how many."""
        ...
