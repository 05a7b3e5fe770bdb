"""Scratch folders of attempts: made for one, gone after it, and swept when their process died without a word."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from farm.settings import Settings

LOGS = "logs"
"""The folder of attempts' logs below the scratch folder."""
SEATS, REPORTS, MPS, CALLS, RELAYS = "seats", "slots", "mps", "calls", "relays"
"""Folders below it: seats of slots, what they do, their card's service, calls, and who says that a worker lives."""


def scratch_root(settings: Settings) -> Path:
    """Where this machine's workers keep files while tasks run."""
    return settings.scratch or Path(tempfile.gettempdir()) / f"facefarm-{os.getuid()}"


class Scratch:
    """Folders under `root`, named by process (id and start time, since ids are used again) and attempt."""

    def __init__(self, root: Path) -> None:
        self._root = root
        root.mkdir(parents=True, exist_ok=True, mode=0o700)

    @contextmanager
    def folder(self, attempt_id: str) -> Iterator[Path]:
        """An empty folder that is removed with all it holds at the end, whatever happens."""
        path = self._root / f"{process_name(os.getpid())}.{attempt_id}"
        path.mkdir(mode=0o700)
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def sweep(self) -> int:
        """Remove the folders of processes that are gone; returns how many."""
        swept = 0
        for path in self._root.iterdir():
            process = path.name.partition(".")[0]
            pid = process.partition("-")[0]
            if pid.isdigit() and process != process_name(int(pid)):
                shutil.rmtree(path, ignore_errors=True)
                swept += 1
        return swept


def process_name(pid: int) -> str:
    """Of one process for good: ids are used again."""
    try:
        return f"{pid}-{_started(pid)}"
    except (psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
        return f"{pid}-gone"


def _started(pid: int) -> int:
    """When the process was started, in ticks: since the boot where the system says so, since that does not change when
    the machine's clock is set.
    """
    if not Path("/proc/self/stat").exists():
        return int(psutil.Process(pid).create_time() * 100)
    # the program's name, in brackets, may hold spaces and brackets itself; the time is the 22nd field
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
