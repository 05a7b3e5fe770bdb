"""Log files of services: appended to by the service itself, rotated by the supervisor."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

MAX_BYTES = 16 << 20
KEPT = 3


def open_log(path: Path) -> int:
    """A descriptor for a service's output. Appending makes it safe to truncate the file under the writer."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def rotate(path: Path, *, max_bytes: int = MAX_BYTES, kept: int = KEPT) -> bool:
    """Copy a large log to `<path>.1`, older ones to .2 ..., and empty it; lines written meanwhile may be lost."""
    if not path.exists() or path.stat().st_size < max_bytes:
        return False
    for number in range(kept - 1, 0, -1):
        older = path.with_name(f"{path.name}.{number}")
        if older.exists():
            older.replace(path.with_name(f"{path.name}.{number + 1}"))
    shutil.copyfile(path, path.with_name(f"{path.name}.1"))
    os.truncate(path, 0)
    return True


def tail(path: Path, lines: int = 5, *, start: int = 0) -> str:
    """The last lines written after byte `start`."""
    try:
        with path.open("rb") as source:
            size = source.seek(0, os.SEEK_END)
            source.seek(max(start, size - 8192) if start <= size else max(0, size - 8192))
            text = source.read().decode(errors="replace")
    except FileNotFoundError:
        return ""
    return "\n".join([line for line in text.splitlines() if line.strip()][-lines:])
